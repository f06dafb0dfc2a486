import { execFile } from "node:child_process";
import { realpath } from "node:fs/promises";
import { promisify } from "node:util";

const run = promisify(execFile);

/** Path of glibc's dynamic loader per architecture; every program names it. */
const loaders: Partial<Record<NodeJS.Architecture, string>> = {
  x64: "/lib64/ld-linux-x86-64.so.2",
  arm64: "/lib/ld-linux-aarch64.so.1",
};

/** The shared libraries of a program, as its dynamic loader finds them, and their real paths. */
export async function sharedLibraries(program: string): Promise<string[]> {
  const loader = loaders[process.arch];
  if (!loader) throw new Error(`the loader of ${process.arch} is not known`);
  const { stdout } = await run(loader, ["--list", program]);
  const found = [...stdout.matchAll(/=> (\/\S+) \(0x/g)].map((match) => match[1] ?? "");
  const files = [loader, ...found];
  return [...new Set([...files, ...(await Promise.all(files.map((file) => realpath(file))))])];
}
