// Cases of one form for kernels that are processes: many ways to one goal, tried in the sandbox and without it.
import { expect, NeedsRoot, proves, short, until } from "./case.mjs";
import { attackerIn, forBoth, tryAll } from "./local-stage.mjs";
import { hasNamespaces } from "./tier.mjs";

const isRoot = process.getuid?.() === 0;

/**
 * `ways` are Python (see local-probe.py) that sets `out`; each has to succeed with `--jail none`. `hopes` are tried in the
 * sandbox only: they are known not to work without it either, or would do harm there. `shellWays` are for bash.
 *
 * `openOnLandlock`: ways that Landlock cannot close, by name, with the reason: they reveal no content of a file and
 * change nothing.
 *
 * A way succeeds if the flag, a secret or `GOT` comes out. `effect` reports anything else that must not have happened.
 */
export function breakOut(attempt) {
  const {
    id,
    class: weight = "S5",
    what,
    prepare,
    ways,
    hopes = () => ({}),
    openOnLandlock = {},
    effect,
    needs,
  } = attempt;
  const make = (language) => ({
    id,
    class: weight,
    what,
    needs,
    async probe(stage) {
      const server = await stage.server("auto");
      const place = await placeOf(stage, server, prepare);
      const session = await attackerIn(stage, server, language);
      const tries = { ...ways(place, language), ...hopes(place, language) };
      const hits = stage.canary.hits;
      const { told, isComplete, reply } = await tryAll(session, tries);
      const through = Object.keys(told).filter((name) => leaks(told[name], place));
      const open = through.filter((name) => !hasNamespaces && name in openOnLandlock);
      const broken = through.filter((name) => !open.includes(name));
      expect(broken.length === 0, broken.map((name) => `${name} got through: ${short(told[name], 200)}`).join("; "));
      // For open ways, only the mark of success may come out, and no secret.
      const secrets = open.length > 0 ? [place.flag, ...place.secrets] : ["GOT-THROUGH", place.flag, ...place.secrets];
      expect(!secrets.some((secret) => reply.whole.includes(secret)), "something got through");
      for (const name of open) stage.note(`${name}: ${openOnLandlock[name]}`);
      expect(isComplete, `the tries ended early: ${short(reply.text.slice(-300))}`);
      expect(stage.canary.hits === hits, "a server outside was reached");
      const after = await session.run(language === "python" ? "6 * 7" : "echo $((6 * 7))");
      expect(after.text.includes("42"), `the session does not answer any more: ${short(after.text)}`);
      expect(!(await effect?.(place, session)), "there was an effect outside");
      return `${Object.keys(tries).length} tries refused`;
    },
    async control(stage) {
      const server = await stage.server("none");
      const place = await placeOf(stage, server, prepare);
      const session = await attackerIn(stage, server, language);
      const tries = ways(place, language);
      const { told, reply } = await tryAll(session, tries);
      const working = Object.keys(tries).filter((name) => leaks(told[name] ?? "", place));
      const failed = Object.keys(tries).filter((name) => !working.includes(name));
      // A refusal that an ordinary user gets without the sandbox proves nothing about the sandbox.
      const count = failed.every((name) => !isRoot && /^$|DENIED/.test(told[name] ?? "?")) ? 0 : failed.length;
      proves(
        count === 0,
        failed.map((name) => `${name}: ${short(told[name] ?? reply.text.slice(-300), 200)}`).join("; "),
      );
      if (working.length === 0) throw new NeedsRoot("none of its ways works for an ordinary user without walls");
      // A process that was signalled takes a moment to exit.
      await until("the effect outside", async () => !effect || (await effect(place, session))).catch(({ message }) =>
        proves(false, message),
      );
      return `${working.length} ways work`;
    },
  });
  return forBoth(make);
}

function leaks(text, { flag, secrets }) {
  return [flag, "GOT-THROUGH", ...secrets].some((secret) => text.includes(secret));
}

async function placeOf(stage, server, prepare) {
  const { flag, flagFile, folder, canary } = stage;
  const sessions = `${server.dataDir}/sessions`;
  const place = {
    flag,
    flagFile,
    folder,
    canary,
    sessions,
    dataDir: server.dataDir,
    serverPid: server.pid,
    neighbour: `${sessions}/${server.neighbour}`,
    /** Other secrets that must not come out. */
    secrets: [server.keep],
  };
  return { ...place, ...(await prepare?.(stage, place, server)) };
}
