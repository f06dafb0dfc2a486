// Optional steps of the setup.
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Without network, each run would wait for the same failure again. CI always retries. */
const FAILURE_REMEMBERED_MS = 60 * 60_000;

/** Wraps a step: reports it, reports a failure with its consequence, and does not retry for a while. */
export function rememberFailures({ folder, say, consequence }) {
  return async (key, what, step) => {
    const note = join(folder, key);
    const rests = existsSync(note) && Date.now() - statSync(note).mtimeMs < FAILURE_REMEMBERED_MS;
    if (rests && process.env.CELLWRIGHT_REQUIRE !== "all") {
      return say(
        `not ${what}: it failed within the last hour (${readFileSync(note, "utf8")}), so ${consequence}. Remove ${note} to try now.`,
      );
    }
    say(what);
    const failure = await step();
    rmSync(note, { force: true });
    if (!failure) return;
    say(`${what} failed, so ${consequence}: ${failure}`);
    mkdirSync(folder, { recursive: true });
    writeFileSync(note, failure);
  };
}
