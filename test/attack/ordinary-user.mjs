// Runs the attack as an ordinary user when root starts it: a user without a name, who sees this repository and the test
// environment at paths that every user can reach, and nothing else.
import { spawnSync } from "node:child_process";
import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { environment } from "./local-stage.mjs";

const UID = 1000;
const repository = fileURLToPath(new URL("../..", import.meta.url)).replace(/\/$/, "");

/** In a separate mount namespace, so nothing is copied and nothing is left; the server's data is in memory. */
const script = `
set -e
mount --bind "$1" "$3/repository"
mount --bind "$2" "$3/environment"
mkdir -p "$3/repository/node_modules/.cache"
mount -t tmpfs -o uid=${UID},gid=${UID},mode=755 tmpfs "$3/repository/node_modules/.cache"
chown ${UID}:${UID} "$3/home" "$3/t"
if [ -n "$5" ]; then
  # The Python that the environment is made from is in a folder of root's: nothing else of that is seen.
  mount --bind "$4" "$3/base"
  mount -t tmpfs -o mode=755 tmpfs "$5"
  mkdir -p "$4"
  mount --move "$3/base" "$4"
fi
folder=$3
shift 5
cd "$folder/repository"
exec setpriv --reuid=${UID} --regid=${UID} --clear-groups --inh-caps=-all --bounding-set=-all -- "$@"
`;

/** The exit status of the run. */
export function runAsUser(args) {
  const folder = mkdtempSync(join(tmpdir(), "cw-"));
  spawnSync("chmod", ["755", folder]);
  for (const name of ["repository", "environment", "home", "t", "base"]) mkdirSync(join(folder, name));
  const env = {
    ...process.env,
    HOME: join(folder, "home"),
    // Short, since the address of a socket holds 107 bytes.
    TMPDIR: join(folder, "t"),
    CELLWRIGHT_TEST_PYTHON: join(folder, "environment/bin/python"),
  };
  const base = dirname(dirname(realpathSync(join(environment, "bin/python"))));
  const closed = [base, closedFolder(base) ?? ""];
  const command = [process.execPath, "test/attack/run.mjs", ...args];
  const inside = [
    "--mount",
    "--propagation",
    "private",
    "sh",
    "-c",
    script,
    "sh",
    repository,
    environment,
    folder,
    ...closed,
  ];
  try {
    return spawnSync("unshare", [...inside, ...command], { stdio: "inherit", env }).status ?? 1;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** The first parent folder that others may not enter. */
function closedFolder(path) {
  if (path === "/") return undefined;
  return closedFolder(dirname(path)) ?? ((statSync(path).mode & 0o001) === 0 ? path : undefined);
}
