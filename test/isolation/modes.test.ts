import { mkdirSync, mkdtempSync, realpathSync, rmSync, statSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { localJail } from "../../src/isolation/local-jail.ts";
import { describeWithIsolations } from "../support/isolations.ts";
import { forked, spawned } from "./jailed.ts";

const python = "/usr/bin/python3";
/** Reports for each way how it was refused, or that it succeeded. */
const script = `
import json, os, socket, sys
own, other, listener = sys.argv[1:]
def connect():
    socket.socket(socket.AF_UNIX).connect(listener)
def by_descriptor(path, mode):
    descriptor = os.open(path, os.O_RDONLY)
    try: os.fchmod(descriptor, mode)
    finally: os.close(descriptor)
def within(path, mode):
    folder = os.open(os.path.dirname(path), os.O_PATH)
    try: os.chmod(os.path.basename(path), mode, dir_fd=folder)
    finally: os.close(folder)
ways = {
    "own": lambda: os.chmod(own, 0o640),
    "own, relative": lambda: (os.chdir(os.path.dirname(own)), os.chmod(os.path.basename(own), 0o641)),
    "own, by descriptor": lambda: by_descriptor(own, 0o642),
    "own, below a folder": lambda: within(own, 0o643),
    "other": lambda: os.chmod(other, 0o666),
    "other, by descriptor": lambda: by_descriptor(other, 0o666),
    "other, below a folder": lambda: within(other, 0o666),
    "other, by a link": lambda: (os.symlink(other, own + "-link"), os.chmod(own + "-link", 0o666)),
    "socket below /tmp": connect,
}
told = {}
for name, way in ways.items():
    try:
        way()
        told[name] = "done %o" % (os.stat(own).st_mode & 0o777)
    except OSError as error:
        told[name] = "refused"
print(json.dumps(told))
`;

describeWithIsolations("a jail that is shown a folder of the user's", (isolation) => {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-modes-")));
  afterAll(() => rmSync(folder, { recursive: true, force: true }));

  test.each([forked, spawned])(
    "changes modes of its own files only, and connects to none of its sockets: $name",
    async (way) => {
      const made = mkdtempSync(join(folder, "one-"));
      const [workspaceDir, tmpDir, shown] = ["workspace", "tmp", "shown"].map((name) => join(made, name)) as [
        string,
        string,
        string,
      ];
      for (const each of [workspaceDir, tmpDir, shown]) mkdirSync(each);
      const [own, other, program] = [join(workspaceDir, "own"), join(shown, "other"), join(shown, "program.py")];
      writeFileSync(own, "");
      writeFileSync(other, "", { mode: 0o600 });
      writeFileSync(program, script);
      const server = createServer().listen(join(shown, "socket"));
      const hasNamespaces = isolation.tier === "namespaces";
      // Bubblewrap alone has no gate: all connections are refused.
      const jail = await localJail({
        isolation,
        environmentPaths: [],
        python,
        workspaceDir,
        allowRead: [shown],
        ...(hasNamespaces ? {} : { tmpDir }),
      });
      const args = [hasNamespaces ? "/workspace/own" : own, other, join(shown, "socket")];
      const ran = await way.run(program, args, { python, jail, folder });
      server.close();
      expect(ran).toMatchObject({ code: 0, stderr: "" });
      expect(JSON.parse(ran.stdout)).toEqual({
        own: "done 640",
        "own, relative": "done 641",
        "own, by descriptor": "done 642",
        "own, below a folder": "done 643",
        other: "refused",
        "other, by descriptor": "refused",
        "other, below a folder": "refused",
        "other, by a link": "refused",
        "socket below /tmp": "refused",
      });
      expect(statSync(other).mode & 0o777).toBe(0o600);
    },
  );
});
