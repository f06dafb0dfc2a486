import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createScaler } from "../../src/mcp/render/scaler.ts";
import { png } from "./render-support.ts";

/** The thread as it is shipped: compiled. Inside the repository, so that it finds its packages. */
describe("the picture thread", () => {
  const root = join(import.meta.dirname, "..", "..");
  let out = "";
  let workerUrl = new URL("file:///");

  beforeAll(() => {
    out = mkdtempSync(join(root, "node_modules", ".picture-worker-"));
    const tsc = join(root, "node_modules", "typescript", "bin", "tsc");
    const source = join(root, "src", "mcp", "render", "picture-worker.ts");
    const flags = ["--ignoreConfig", "--module", "nodenext", "--target", "es2023", "--skipLibCheck", "--types", "node"];
    const paths = ["--rewriteRelativeImportExtensions", "--rootDir", join(root, "src"), "--outDir", out];
    execFileSync(process.execPath, [tsc, source, ...flags, ...paths], { cwd: root, stdio: "pipe" });
    workerUrl = pathToFileURL(join(out, "mcp", "render", "picture-worker.js"));
  });
  afterAll(() => rmSync(out, { recursive: true, force: true }));

  const limits = { mimeType: "image/png", maxSide: 100, maxBytes: 100_000 } as const;
  const bytes = Buffer.from(png(400, 200), "base64");

  test("scales one picture after another, and goes on after a broken one", async () => {
    const scaler = createScaler({ workerUrl });
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50, mimeType: "image/png" });
    expect(await scaler.scale({ bytes: bytes.subarray(0, 60), ...limits })).toBeUndefined();
    expect(await scaler.scale({ bytes, ...limits })).toMatchObject({ width: 100, height: 50 });
    await scaler.close();
  });

  test("is given up at the deadline", async () => {
    const scaler = createScaler({ workerUrl, deadlineMs: 30 });
    const large = Buffer.from(png(2_000, 2_000), "base64");
    const started = performance.now();
    expect(await scaler.scale({ bytes: large, ...limits })).toBeUndefined();
    expect(performance.now() - started).toBeLessThan(2_000);
    expect(await scaler.scale({ bytes, ...limits })).toBeUndefined();
    await scaler.close();
  });
});
