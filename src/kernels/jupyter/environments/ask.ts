import type { Candidate } from "./candidate.ts";
import type { EnvironmentsConfig, Judgement } from "./environment.ts";
import { isWithin, realPath } from "./folders.ts";
import type { Answer } from "./interpreter.ts";
import { askInterpreter } from "./probe.ts";
import { behindShim } from "./shim.ts";
import { outermost, placesOnPath, sightOf } from "./sight.ts";

export interface Asked {
  answer: Answer;
  /** The interpreter that was asked: not a shim that leads to it. */
  python: string;
  /** What it has to be shown, see `PythonEnvironment`. */
  readPaths: string[];
  within: string[];
}

/**
 * Asks a candidate's interpreter what it is, shown no more than it needs. Folders that its path names elsewhere are not
 * in its first sight, and there may be packages in them: what the operator vouches for is believed about these.
 */
export async function askCandidate(
  candidate: Candidate,
  judgement: Judgement,
  config: EnvironmentsConfig,
): Promise<Asked | { obstacle: string }> {
  const { isVouched } = judgement;
  const python = await behindShim(candidate, judgement, config);
  const sight = await sightOf(python, judgement, config);
  if ("obstacle" in sight) return sight;
  const ask = (paths: string[]) => askInterpreter({ python, paths, isVouched }, config);
  const shown = [...sight.paths, ...sight.within];
  const answer = await ask(shown);
  const first = { answer, python, readPaths: sight.paths, within: sight.within };
  if (!isVouched || config.jail.isOff || !("interpreter" in answer)) return first;
  const places = placesOnPath(answer.interpreter, config).filter((each) => !shown.some((path) => isWithin(each, path)));
  if (places.length === 0) return first;
  // A project that code works in stays as writable as it is: nothing of it runs outside (see `coldReason`).
  const folderOf = (place: string) => config.vouched.visible.find((each) => isWithin(realPath(place), realPath(each)));
  const readPaths = outermost([...sight.paths, ...places.filter((place) => folderOf(place) === undefined)]);
  const within = [...new Set(places.map(folderOf).filter((folder) => folder !== undefined))];
  return { python, answer: await ask([...readPaths, ...within]), readPaths, within };
}
