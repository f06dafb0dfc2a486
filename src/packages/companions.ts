import { normalName } from "./requirement.ts";

/** Packages whose authors rely on others that they do not name. */
const companions: [beginnings: string[], companion: string][] = [
  [["logfire", "rich"], "pygments"],
  [["pydantic-ai"], "typing_extensions>=4.12"],
];

/** Requirements, and what they need besides. What is in Python itself (`ssl`, for httpx) need not be asked for. */
export function withCompanions(requirements: string[]): string[] {
  const names = requirements.map(normalName);
  const added = companions
    .filter(([beginnings]) => names.some((name) => beginnings.some((beginning) => name.startsWith(beginning))))
    .map(([, companion]) => companion);
  return [...requirements, ...added.filter((companion) => !requirements.includes(companion))];
}
