import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";

/** In the order in which they import each other. */
const modules = ["helper_walk", "helper_removal", "helper_files", "helper_instances", "helper_mirror", "helper"];

/** The name of the function that answers, in the kernel that ran `helperSource`. */
export const ANSWER = "_cellwright_answer";

/** What makes a helper of any Python: our modules, in memory only. */
export function helperSource(): string {
  const sources = modules.map((name) => [name, readFileSync(fileURLToPath(moduleUrl(name)), "utf8")]);
  const packed = deflateSync(JSON.stringify(sources)).toString("base64");
  return `
import base64, json, os, sys, types, zlib
if os.name != "posix":
    raise RuntimeError("only servers on Linux and macOS can keep the files of sessions")
for _name, _source in json.loads(zlib.decompress(base64.b64decode("${packed}"))):
    sys.modules[_name] = types.ModuleType(_name)
    exec(compile(_source, "<cellwright " + _name + ">", "exec"), sys.modules[_name].__dict__)
${ANSWER} = sys.modules["helper"].answer
`;
}

function moduleUrl(name: string): URL {
  return new URL(`../host/${name}.py`, import.meta.url);
}
