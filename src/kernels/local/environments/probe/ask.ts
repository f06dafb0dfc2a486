import type { Candidate } from "../discover/candidate.ts";
import { isWithin, realPath } from "../discover/folders.ts";
import type { EnvironmentsConfig, Judgement } from "../environment.ts";
import type { Answer } from "./interpreter.ts";
import { askInterpreter } from "./probe.ts";
import { behindShim } from "./shim.ts";
import { outermost, placesOnPath, sightOf } from "./sight.ts";

export interface Asked {
  answer: Answer;
  /** The interpreter itself, not the shim that starts it. */
  python: string;
  /** See `PythonEnvironment`. */
  readPaths: string[];
  within: string[];
}

/**
 * Probes a candidate's interpreter, showing it no more than it needs. Its import path may name folders outside the
 * environment, which the first probe does not see. Vouched environments get a second probe that sees them.
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
  // A project in a session's folder stays writable: none of its code runs outside a jail (see `coldReason`).
  const folderOf = (place: string) => config.vouched.visible.find((each) => isWithin(realPath(place), realPath(each)));
  const readPaths = outermost([...sight.paths, ...places.filter((place) => folderOf(place) === undefined)]);
  const within = [...new Set(places.map(folderOf).filter((folder) => folder !== undefined))];
  return { python, answer: await ask([...readPaths, ...within]), readPaths, within };
}
