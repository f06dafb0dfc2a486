// README's commands as somebody runs them who has just cloned the project: in a minimal Debian, from a clean clone of
// HEAD in a home folder of mode 700, as root and as an ordinary user without sudo.
//
//   npm run fresh -- [start] [test]         which of the commands; both unless said
//     --user root|someone                   as whom; both unless said
//     --command "npm run attack"            this instead
//     --refuse-namespaces                   in a machine as Docker's default profile makes one
//     --optional                            succeed where no such machine can be made
import { spawnSync } from "node:child_process";
import { dirname } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { createMachine, ORDINARY_USER, obstacle } from "./fresh/machine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const commands = { start: "node scripts/fresh/first-picture.mjs", test: "npm test" };

const { values, positionals } = readArguments();
const why = obstacle();
if (why) {
  console.error(`fresh: no fresh machine can be made here: ${why}.`);
  process.exit(values.optional ? 0 : 1);
}
if (spawnSync("git", ["-C", root, "status", "--porcelain"], { encoding: "utf8" }).stdout !== "")
  console.log("fresh: uncommitted changes are not part of the clone");

const wanted = values.command ? [values.command] : positionals.map((name) => commands[name]);
try {
  const results = [];
  for (const user of values.user) results.push(...(await runAs(user)));
  console.log(results.map(({ status, what }) => `fresh: ${status === 0 ? "ok" : "FAILED"}  ${what}`).join("\n"));
  process.exit(results.every(({ status }) => status === 0) ? 0 : 1);
} catch (error) {
  console.error(`fresh: ${error.message}`);
  process.exit(1);
}

/** All commands, one after another in the same machine. */
async function runAs(user) {
  const results = [];
  const machine = createMachine({ repository: root, user });
  try {
    for (const command of wanted) {
      const what = `${user}$ ${command}`;
      console.log(`fresh: ${what}`);
      results.push({ what, status: await machine.run(command, { container: values["refuse-namespaces"] }) });
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
        command: { type: "string" },
        "refuse-namespaces": { type: "boolean", default: false },
        optional: { type: "boolean", default: false },
      },
    });
    const unknown = [
      ...values.user.filter((user) => !users.includes(user)),
      ...positionals.filter((name) => !(name in commands)),
    ];
    if (unknown.length > 0) throw new Error(`unknown: ${unknown.join(", ")}`);
    return { values, positionals: positionals.length > 0 ? positionals : Object.keys(commands) };
  } catch (error) {
    console.error(`fresh: ${error.message}. Expected: [start] [test] [--user root|${ORDINARY_USER}] [--command "…"]`);
    process.exit(2);
  }
}
