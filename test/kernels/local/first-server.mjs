/**
 * A server that will be killed: starts a kernel as the program does, and runs cells in it.
 * `first-server.mjs <options> <session>`, both as JSON; the cells as JSON on stdin. Each event of a cell is a line on stdout.
 */
import { readFileSync } from "node:fs";
import { createProvider } from "../../../dist/kernels/providers.js";
import { createLog } from "../../../dist/log.js";
import { defaultOptions } from "../../../dist/options/options.js";

const [options, session] = process.argv.slice(2).map((text) => JSON.parse(text));
const provider = await createProvider({ ...defaultOptions(), ...options }, createLog("error"));
const { signal } = new AbortController();
const kernel = await provider.start({ language: "python" }, { ...session, signal });
for (const code of JSON.parse(readFileSync(0, "utf8"))) {
  for await (const event of kernel.execute(code)) process.stdout.write(`${JSON.stringify(event)}\n`);
}
process.stdout.write("all cells are done\n");
