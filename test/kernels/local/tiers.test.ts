import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { failure, result, run, runUntilReady, text } from "../../contracts/kernel.ts";
import { describeWithTiers } from "../../support/isolations.ts";
import { besidesLimits } from "../../support/limit-notes.ts";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";
import { builtFrom, providerKernels } from "../provider-kernels.ts";

const env = testPython("managed");

describeWith("localKernels", "local kernels", () => {
  describeWithTiers("isolated", (jail) => {
    const { start } = providerKernels(builtFrom({ kernel: "local", env, jail }));
    const phrase = jail === "landlock" ? "Landlock" : "namespaces";

    test("say what isolates them", async () => {
      for (const language of ["python", "bash"] as const) {
        const { kernel } = await start({ language });
        expect(kernel.info.layers).toEqual([phrase, "system call filter", "no network"]);
        expect(besidesLimits(kernel.info.notes)).toEqual([]);
        await kernel.dispose();
      }
    });

    if (jail === "namespaces") {
      test("are the second process there, in /workspace, and see no home folder", async () => {
        const { kernel } = await start();
        const look = "import os; (os.getpid(), os.getcwd(), os.path.exists('/root/.bashrc'))";
        expect(result(await run(kernel, look))).toBe("(2, '/workspace', False)");
        await kernel.dispose();
        expect((await kernel.closed).reason).toBe("The kernel was closed.");
      });
    }

    test("run commands after `!`, with the names of a cell in them and their output in order", async () => {
      const { kernel } = await start();
      const code = "def f(word):\n    !echo {word} $word; echo away >&2; exit 3\nf('hi')\nprint('after')\n_exit_code";
      const events = await run(kernel, code);
      // A terminal has one stream for both.
      expect(text(events).replaceAll("\r", "") + text(events, "stderr")).toMatch(/^hi hi\n(away\n)?after\n(away\n)?$/);
      expect(result(events)).toBe("3");
      const sleeping = await runUntilReady(kernel, "!echo ready; sleep 60", () => kernel.interrupt?.());
      expect(text(sleeping)).toContain("ready");
      expect(text(await run(kernel, "!cd /; pwd\n!pwd")).split(/\r?\n/)).toMatchObject([
        "/",
        expect.stringMatching(/workspace$/),
        "",
      ]);
      await kernel.dispose();
    });
  });

  describeWithTiers("in the user's own folder, isolated", (jail) => {
    const workspace = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-project-")));
    afterAll(() => rmSync(workspace, { recursive: true, force: true }));
    mkdirSync(join(workspace, ".git"));
    writeFileSync(join(workspace, ".git/HEAD"), "ref: refs/heads/main\n");
    writeFileSync(join(workspace, ".git/config"), "[core]\n");
    const { start } = providerKernels(builtFrom({ kernel: "local", env, jail, workspace }), { workspace });
    // A missing name is an empty folder in namespaces.
    const refused = /Permission denied|Read-only file system|Is a directory/;

    test("Python makes files and folders beside what hosts obey, and cannot change that", async () => {
      const { kernel } = await start();
      const works =
        'import os; os.makedirs("results/deep"); open("table.csv", "w").write("1"); os.rename("table.csv", "results/table.csv")';
      expect(failure(await run(kernel, works))).toBeUndefined();
      expect(readFileSync(join(workspace, "results/table.csv"), "utf8")).toBe("1");
      for (const path of [".git/config", ".git/hooks", ".envrc"])
        expect(failure(await run(kernel, `open("${path}", "a")`))?.message).toMatch(refused);
      expect(readFileSync(join(workspace, ".git/config"), "utf8")).toBe("[core]\n");
      await kernel.dispose();
    });

    test("and so does bash", async () => {
      const { kernel } = await start({ language: "bash" });
      const works = "mkdir shell && echo 1 > made && mv made shell/ && cat shell/made";
      expect(text(await run(kernel, works))).toBe("1\n");
      const events = await run(kernel, "echo x >> .git/config; mkdir .vscode; mv .git old; ls -d old");
      expect(text(events, "stderr")).toMatch(refused);
      expect(text(events)).toBe("");
      await kernel.dispose();
    });
  });
});
