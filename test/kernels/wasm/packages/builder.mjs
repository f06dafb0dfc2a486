// A separate process that requests an image: `builder.mjs <request as JSON>`. Prints the result.
import { createPackages } from "../../../../dist/kernels/wasm/packages/packages.js";
import { createLog } from "../../../../dist/log.js";

const [request] = process.argv.slice(2);
const { config, sources, requirements } = JSON.parse(request);
const packages = createPackages({ ...config, log: createLog("silent") }, sources);
const progress = (message) => process.stdout.write(`${JSON.stringify({ progress: message })}\n`);
try {
  const image = await packages.image(requirements, { signal: new AbortController().signal, progress });
  process.stdout.write(`${JSON.stringify({ image })}\n`);
} catch (error) {
  process.stdout.write(`${JSON.stringify({ error: error.message })}\n`);
}
await packages.dispose();
