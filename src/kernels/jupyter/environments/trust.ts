import type { Candidate } from "./candidate.ts";
import type { EnvironmentsConfig } from "./environment.ts";
import { isWithin, realPath } from "./folders.ts";
import { placesOnTheWay } from "./link-chain.ts";

type Trust = Pick<EnvironmentsConfig, "writableByCode" | "protectedFromCode">;

/** The folder that code of sessions can write and that has a say in what this candidate's interpreter does. */
export function writableFolderOf(candidate: Pick<Candidate, "path" | "python">, trust: Trust): string | undefined {
  const paths = [candidate.path, candidate.python].filter((path) => path !== undefined);
  return paths
    .flatMap(placesOnTheWay)
    .map((place) => writableFolder(place, trust))
    .find((folder) => folder !== undefined);
}

/** The folder in which code of sessions can write this place. */
export function writableFolder(place: string, { writableByCode, protectedFromCode = [] }: Trust): string | undefined {
  if (protectedFromCode.some((folder) => isWithin(place, folder))) return undefined;
  return writableByCode.find((folder) => isWithin(place, realPath(folder)));
}
