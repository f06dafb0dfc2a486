/** micropip's own wheel, which every test needs and no npm package contains. */

import { spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { describeFound } from "../../../support/requirements.ts";
import type { Wheel } from "./wheels.ts";

/** Each test starts several processes with a whole Python: slow on a loaded machine. */
const TIMEOUT_MS = 180_000;

const VERSION = "0.11.1";
const FILE = `micropip-${VERSION}-py3-none-any.whl`;
const folder = join(import.meta.dirname, "../../../../.cache/test-wheels");

/** `describe` for a suite that needs it. Without it the suite is skipped with the reason in its title. */
export function describeWithMicropip(title: string, suite: (micropip: Wheel) => void): void {
  const found = find();
  const result = typeof found === "string" ? { reason: found } : { found };
  describeFound("micropip's wheel", result, { title, suite, timeout: TIMEOUT_MS });
}

function find(): Wheel | string {
  const path = join(folder, FILE);
  if (!existsSync(path)) {
    mkdirSync(folder, { recursive: true });
    const target = ["--python-version", "3.14", "--only-binary", ":all:", "--no-deps", "--dest", folder];
    const run = spawnSync("pip", ["download", "--quiet", ...target, `micropip==${VERSION}`], { timeout: 60_000 });
    if (!readdirSync(folder).includes(FILE))
      return `pip could not download it (${run.error ?? `status ${run.status}`})`;
  }
  const data = readFileSync(path);
  const sha256 = createHash("sha256").update(data).digest("hex");
  return { name: "micropip", version: VERSION, file: FILE, data, sha256, metadata: "", depends: [] };
}
