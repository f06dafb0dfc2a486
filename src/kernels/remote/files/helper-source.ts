import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { deflateSync } from "node:zlib";

/** In import order. */
const modules = ["walk", "removal", "state", "files", "instances", "mirror"].map((name) => `helper_${name}`);

/** Name of the answering function in a kernel that ran `helperSource`. */
export const ANSWER = "_cellwright_answer";

/** Code that turns any Python into a helper: our modules, in memory only. */
export function helperSource(): string {
  const sources = [...modules, "helper"].map((name) => [name, readFileSync(fileURLToPath(moduleUrl(name)), "utf8")]);
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
  return new URL(`../../python/remote-helper/${name}.py`, import.meta.url);
}
