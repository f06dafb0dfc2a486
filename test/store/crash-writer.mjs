// Writes to a store like a server that runs cells, and prints what was acknowledged. Usage: <dataDir> <first id>

import { writeSync } from "node:fs";
import { createLog } from "../../dist/log.js";
import { openDiskStore } from "../../dist/store/disk.js";

const [, , dataDir, first] = process.argv;

const store = await openDiskStore({ dataDir, log: createLog("error") });
if (!(await store.claim("s1"))) throw new Error("The session is still taken.");
const image = Buffer.alloc(30_000, Number(first)).toString("base64");
for (let id = Number(first); ; id += 1) {
  const cell = {
    id: String(id),
    code: `# cell ${id}`,
    language: "python",
    status: "running",
    executionCount: null,
    outputs: [],
    files: [],
    notices: [],
    startedAt: new Date().toISOString(),
    durationMs: 0,
  };
  await store.begin("s1", cell);
  writeSync(1, `begun ${id}\n`);
  const outputs = [
    { type: "display", data: { "text/plain": "x".repeat(500), ...(id % 10 === 0 && { "image/png": image }) } },
  ];
  await store.finish("s1", { ...cell, status: "ok", outputs });
  writeSync(1, `finished ${id}\n`);
}
