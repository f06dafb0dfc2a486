import { chmodSync, mkdirSync, mkdtempSync, realpathSync, rmSync, symlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { findProgram, helperEnv, keepProgramsFrom, programPath } from "../../src/process/programs.ts";
import { CodeReach } from "../../src/reach/code-reach.ts";

function ground() {
  const folder = realpathSync(mkdtempSync(join(tmpdir(), "cellwright-programs-")));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const put = (path: string) => {
    mkdirSync(join(folder, path, ".."), { recursive: true });
    writeFileSync(join(folder, path), "#!/bin/sh\n");
    chmodSync(join(folder, path), 0o755);
    return join(folder, path);
  };
  return { folder, put };
}

test("a program is found by an absolute path, and not where code can write, nor through a link that leads there", () => {
  const { folder, put } = ground();
  const planted = put("work/node_modules/.bin/conda");
  const good = put("good/conda");
  mkdirSync(join(folder, "linked"));
  symlinkSync(planted, join(folder, "linked/conda"));
  const PATH = [
    "node_modules/.bin",
    join(folder, "work/node_modules/.bin"),
    join(folder, "linked"),
    join(folder, "good"),
  ];
  const env = { PATH: PATH.join(":") };
  expect(findProgram("conda", env)).toBe(planted);
  keepProgramsFrom(new CodeReach({ writable: [join(folder, "work")], kept: [] }));
  expect(findProgram("conda", env)).toBe(good);
  expect(programPath(env)).toBe([join(folder, "linked"), join(folder, "good")].join(":"));
  expect(findProgram("mamba", env)).toBeUndefined();
});

test("what a program that we start sees of our environment has no keys in it", () => {
  const env = {
    PATH: "/usr/bin:bin",
    HOME: "/h",
    OPENAI_API_KEY: "s",
    CELLWRIGHT_AUTH_TOKEN: "s",
    UV_INDEX: "u",
    https_proxy: "p",
  };
  expect(helperEnv(env)).toEqual({ PATH: "/usr/bin", HOME: "/h", UV_INDEX: "u", https_proxy: "p" });
});
