import { normalName } from "./requirement.ts";

/** Packages with undeclared dependencies. */
const companions: [beginnings: string[], companion: string][] = [
  [["logfire", "rich"], "pygments"],
  [["pydantic-ai"], "typing_extensions>=4.12"],
];

/** Adds undeclared dependencies. Standard library modules (`ssl`, for httpx) need not be requested. */
export function withCompanions(requirements: string[]): string[] {
  const names = requirements.map(normalName);
  const added = companions
    .filter(([beginnings]) => names.some((name) => beginnings.some((beginning) => name.startsWith(beginning))))
    .map(([, companion]) => companion);
  return [...requirements, ...added.filter((companion) => !requirements.includes(companion))];
}
