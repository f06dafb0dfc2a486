import { dirname } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { isOurs } from "../../../reach/code-reach.ts";
import { UnusablePath, type Way, wayTo } from "../../../reach/way.ts";
import type { Candidate } from "./discover/candidate.ts";
import { namedEnvironments } from "./discover/named.ts";
import type { EnvironmentsConfig, Judgement } from "./environment.ts";
import { isVouchedFor } from "./vouch.ts";

/** Judges the current state: an environment replaced since the start is not vouched for. Throws `env_error`. */
export function judge(candidate: Candidate, config: EnvironmentsConfig): Judgement {
  // Without jails, code has all rights of this program anyway.
  if (config.jail.isOff) return { isVouched: true };
  try {
    return judgeWays(candidate, config);
  } catch (error) {
    if (!(error instanceof UnusablePath)) throw error;
    throw new CellwrightError("env_error", `Environment \`${candidate.name}\`: ${error.message}`, {
      hint: "Call list_environments and choose another.",
    });
  }
}

function judgeWays(candidate: Candidate, config: EnvironmentsConfig): Judgement {
  const { path, python, listedIn, kind } = candidate;
  const { vouched } = config;
  const ways = [path, python, listedIn].filter((each) => each !== undefined).map(wayTo);
  const writable = ways.map((way) => vouched.reach.throughWay(way)).find((folder) => folder !== undefined);
  if (writable) return { isVouched: false, why: `code of sessions can write to ${writable}, which it depends on` };
  const way = kind === "kernelspec" && python ? wayTo(dirname(dirname(python))) : (ways[0] as Way);
  if (isVouchedFor(way, vouched)) return { isVouched: true };
  if (candidate.byPath && !isNamed(way, config))
    return { isVouched: false, why: "it was named by a path that was not vouched for when Cellwright started" };
  if (ways.every(isOurs)) return { isVouched: true };
  return { isVouched: false, why: "users other than you and root can change it" };
}

/** Whether the path is that of an environment known by name. */
function isNamed({ real }: Way, config: EnvironmentsConfig): boolean {
  return namedEnvironments(config).some(({ path, kind, listedIn }) => {
    if (kind === "kernelspec") return false;
    const ways = [path, listedIn].filter((each) => each !== undefined).map(wayTo);
    return ways[0]?.real === real && ways.every((way) => config.vouched.reach.throughWay(way) === undefined);
  });
}
