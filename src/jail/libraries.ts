import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Where glibc's loader is on each processor; it is written into every program. */
const loaders: Partial<Record<NodeJS.Architecture, string>> = {
  x64: "/lib64/ld-linux-x86-64.so.2",
  arm64: "/lib/ld-linux-aarch64.so.1",
};

/** The files that a dynamically linked program needs besides itself, as its own loader finds them, and where they really are. */
export async function sharedLibraries(program: string): Promise<string[]> {
  const loader = loaders[process.arch];
  if (!loader) throw new Error(`the loader of ${process.arch} is not known`);
  const { stdout } = await run(loader, ["--list", program]);
  const found = [...stdout.matchAll(/=> (\/\S+) \(0x/g)].map((match) => match[1] ?? "");
  const files = [loader, ...found];
  return [...new Set([...files, ...(await Promise.all(files.map((file) => realpath(file))))])];
}
