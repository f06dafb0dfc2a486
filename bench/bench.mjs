// What the measurements have in common.
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { Report } from "./measure.mjs";

/** A file beside this one. */
export const here = (name) => fileURLToPath(new URL(name, import.meta.url));
export const program = here("../dist/main.js");
/** With ipykernel, jupyter_client, numpy, pandas, matplotlib and plotly. */
export const python = process.env.CELLWRIGHT_TEST_PYTHON ?? here("../.cache/test-env/bin/python");
/** Removed at the end. */
export const folder = mkdtempSync(join(tmpdir(), "cellwright-bench-"));
export const report = new Report();

/** Takes the measurements, one after another, and ends the process. With `--check` a missed limit is a failure. */
export async function measure(...works) {
  try {
    for (const work of works) await work();
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
  process.exit(process.argv.includes("--check") && report.failed ? 1 : 0);
}

/** Ports that are free now. */
export async function freePorts(count) {
  const servers = Array.from({ length: count }, () => createServer().listen(0, "127.0.0.1"));
  await Promise.all(servers.map((server) => once(server, "listening")));
  const ports = servers.map((server) => server.address().port);
  await Promise.all(servers.map((server) => new Promise((resolve) => server.close(resolve))));
  return ports;
}
