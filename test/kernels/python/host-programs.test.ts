import { spawnSync } from "node:child_process";
import { readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { testPython } from "../../support/pythons.ts";
import { describeWith } from "../../support/requirements.ts";

/** Parts of our Python at limits that no cell of the other suites reaches. */
describeWith("managedPython", "host programs", () => {
  const suites = readdirSync(import.meta.dirname).filter((name) => name.endsWith(".py"));

  test.each(suites)("%s", (name) => {
    const { status, stderr } = spawnSync(testPython("managed"), ["-B", join(import.meta.dirname, name)], {
      encoding: "utf8",
    });
    expect(status, stderr).toBe(0);
  });
});
