import { dirname } from "node:path";
import { CellwrightError } from "../../../errors.ts";
import { isOurs } from "../../../reach/code-reach.ts";
import { NotAPlace, type Way, wayTo } from "../../../reach/way.ts";
import type { Candidate } from "./candidate.ts";
import type { EnvironmentsConfig, Judgement } from "./environment.ts";
import { namedEnvironments } from "./named.ts";
import { isVouchedFor } from "./vouch.ts";

/** Looks at what is there now: an environment that was replaced since the start is another one. Throws `env_error`. */
export function judge(candidate: Candidate, config: EnvironmentsConfig): Judgement {
  // Without jails code has all rights of this program, and there is nothing to keep from it.
  if (config.jail.isOff) return { isVouched: true };
  try {
    return judgeWays(candidate, config);
  } catch (error) {
    if (!(error instanceof NotAPlace)) throw error;
    throw new CellwrightError("env_error", `Environment \`${candidate.name}\`: ${error.message}`, {
      hint: "Call list_environments and choose another.",
    });
  }
}

function judgeWays(candidate: Candidate, config: EnvironmentsConfig): Judgement {
  const { path, python, toldBy, kind } = candidate;
  const { vouched } = config;
  const ways = [path, python, toldBy].filter((each) => each !== undefined).map(wayTo);
  const writable = ways.map((way) => vouched.reach.throughWay(way)).find((folder) => folder !== undefined);
  if (writable) return { isVouched: false, why: `code of sessions can write in ${writable}, which has a say in it` };
  const way = kind === "kernelspec" && python ? wayTo(dirname(dirname(python))) : (ways[0] as Way);
  if (isVouchedFor(way, vouched)) return { isVouched: true };
  if (candidate.byPath && !isNamed(way, config))
    return { isVouched: false, why: "it was named by a path that nobody vouched for when Cellwright started" };
  if (ways.every(isOurs)) return { isVouched: true };
  return { isVouched: false, why: "others than you and root can change it" };
}

/** A path to what has a name as well is as good as that name. */
function isNamed({ real }: Way, config: EnvironmentsConfig): boolean {
  return namedEnvironments(config).some(({ path, kind, toldBy }) => {
    if (kind === "kernelspec") return false;
    const ways = [path, toldBy].filter((each) => each !== undefined).map(wayTo);
    return ways[0]?.real === real && ways.every((way) => config.vouched.reach.throughWay(way) === undefined);
  });
}
