/** Starts a kernel with a looping cell and waits to be killed: `orphan-parent.mjs <folder> <cache> <jail>`. */
import { join } from "node:path";
import { createWasmProvider } from "../../../dist/kernels/wasm/provider.js";
import { createLog } from "../../../dist/log.js";

const [folder, cacheDir, jail] = process.argv.slice(2);
const provider = createWasmProvider({
  cacheDir,
  memoryMb: 512,
  diskMb: 64,
  jail,
  startTimeoutMs: 60_000,
  log: createLog("error"),
});
const kernel = await provider.start(
  { language: "python" },
  {
    sessionId: "orphan",
    workspaceDir: join(folder, "workspace"),
    runDir: join(folder, "run"),
    signal: new AbortController().signal,
  },
);
for await (const event of kernel.execute("print('looping', flush=True)\nwhile True: pass")) {
  process.stdout.write(event.text ?? "");
}
