import { execFile } from "node:child_process";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { expect, onTestFinished, test } from "vitest";
import { describeWith } from "../support/requirements.ts";

const run = promisify(execFile);
const repository = fileURLToPath(new URL("../..", import.meta.url));

/** A network namespace without any interface, so that the program is offline. */
const offline = ["--dev-bind", "/", "/", "--unshare-net"];

describeWith("bubblewrap", "the package as users get it", (bwrap) => {
  test("installs without dev dependencies, and answers 1 + 1 with no network at all", async () => {
    const folder = await mkdtemp(join(tmpdir(), "cellwright-package-"));
    onTestFinished(() => rm(folder, { recursive: true, force: true }));
    const { stdout } = await run("npm", ["pack", "--json", "--ignore-scripts", "--pack-destination", folder], {
      cwd: repository,
    });
    const [{ filename, size }] = JSON.parse(stdout);
    expect(size).toBeLessThan(2_000_000);
    await writeFile(join(folder, "package.json"), "{}");
    await run("npm", ["install", "--omit=dev", "--no-audit", "--no-fund", join(folder, filename)], { cwd: folder });
    const program = join(folder, "node_modules", ".bin", "cellwright");
    const settings = ["--data-dir", join(folder, "data")];
    const answer = await run(bwrap, [...offline, program, "run", "-c", "1 + 1", ...settings], { cwd: folder });
    expect(answer.stdout).toBe("2\n");
    const { stdout: version } = await run(program, ["--version"]);
    expect(version).toMatch(/^\d+\.\d+\.\d+\n$/);
  }, 240_000);
});
