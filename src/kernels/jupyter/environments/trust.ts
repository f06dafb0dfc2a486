import type { Candidate } from "./candidate.ts";
import { isWithin, realPath } from "./folders.ts";
import { placesOnTheWay } from "./link-chain.ts";

/** The folder that code of sessions can write and that has a say in what this candidate's interpreter does. */
export function writableFolderOf(
  candidate: Pick<Candidate, "path" | "python">,
  writableByCode: string[],
): string | undefined {
  const paths = [candidate.path, candidate.python].filter((path) => path !== undefined);
  const places = paths.flatMap(placesOnTheWay);
  return writableByCode.find((folder) => places.some((place) => isWithin(place, realPath(folder))));
}
