// Runs README's commands like a first-time user: in a minimal Debian, from a clean clone of HEAD in a home folder of mode
// 700, as root and as an ordinary user without sudo.
//
//   npm run fresh -- [start] [test] [contract]  commands to run, in this order (default: start and test)
//   npm run fresh -- container:start …          with Docker's default restrictions: few rights, no namespaces
//   npm run fresh -- image                      the steps of the Dockerfile instead
//     --user root|someone                       user (default: both)
//     --command "npm run attack"                run this as well, after them; repeatable, `container:` as above
//     --optional                                succeed if no such machine can be created
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { tryImage } from "./fresh/image.mjs";
import { createMachine, ORDINARY_USER, obstacle } from "./fresh/machine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const commands = {
  start: "node scripts/fresh/first-picture.mjs",
  test: "npm test",
  contract: "node scripts/setup.mjs test && npx vitest run --project contract",
};

const IN_CONTAINER = /^container:/;

const { values, positionals } = readArguments();
const why = obstacle();
if (why) {
  console.error(`fresh: cannot create a fresh machine here: ${why}.`);
  process.exit(values.optional ? 0 : 1);
}
if (spawnSync("git", ["-C", root, "status", "--porcelain"], { encoding: "utf8" }).stdout !== "")
  console.log("fresh: uncommitted changes are not part of the clone");

if (positionals.includes("image")) {
  await tryImage({ repository: root }).catch(fail);
  console.log("fresh: ok  the steps of the Dockerfile");
  process.exit(0);
}

const wanted = [...positionals, ...values.command].map((given) => {
  const name = given.replace(IN_CONTAINER, "");
  return { command: commands[name] ?? name, container: IN_CONTAINER.test(given) };
});
try {
  const results = [];
  for (const user of values.user) results.push(...(await runAs(user)));
  for (const { what, status, seconds } of results)
    console.log(`fresh: ${String(seconds).padStart(5)} s  ${status === 0 ? "ok" : "FAILED"}  ${what}`);
  process.exit(results.every(({ status }) => status === 0) ? 0 : 1);
} catch (error) {
  fail(error);
}

function fail(error) {
  console.error(`fresh: ${error.message}`);
  process.exit(1);
}

/** Runs all commands, one after another in the same machine. */
async function runAs(user) {
  const results = [];
  const machine = createMachine({ repository: root, user });
  try {
    for (const { command, container } of wanted) {
      const what = `${user}${container ? " in a container" : ""}$ ${command}`;
      console.log(`fresh: ${what}`);
      const started = performance.now();
      const status = await machine.run(command, { container });
      results.push({ what, status, seconds: Math.round((performance.now() - started) / 1000) });
    }
  } finally {
    machine.remove();
  }
  return results;
}

function readArguments() {
  const users = ["root", ORDINARY_USER];
  try {
    const { values, positionals } = parseArgs({
      allowPositionals: true,
      options: {
        user: { type: "string", multiple: true, default: users },
        command: { type: "string", multiple: true, default: [] },
        optional: { type: "boolean", default: false },
      },
    });
    const unknown = [
      ...values.user.filter((user) => !users.includes(user)),
      ...positionals.filter((name) => !(name.replace(IN_CONTAINER, "") in commands) && name !== "image"),
    ];
    if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(", ")}`);
    const isEmpty = positionals.length + values.command.length === 0;
    return { values, positionals: isEmpty ? ["start", "test"] : positionals };
  } catch (error) {
    console.error(
      `fresh: ${error.message}. Expected: [container:]start, test or contract, or image, [--user root|${ORDINARY_USER}] [--command "…"]`,
    );
    process.exit(2);
  }
}
