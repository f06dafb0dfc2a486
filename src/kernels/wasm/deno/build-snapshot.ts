/**
 * Builds the memory snapshot that kernels start from:
 * `build-snapshot <pyodide folder> <snapshot file> <image folder or -> <packages to import> <module>=<file> …`.
 * Has to run in Deno: a snapshot made by another runtime does not load.
 */
import { deno } from "./deno.ts";
import { loadPyodide } from "./pyodide.ts";

const [pyodideDir = "", snapshotFile = "", imageDir = "-", packages = "", ...modules] = deno.args;
const python = await loadPyodide(pyodideDir, { env: { HOME: "/home/user" }, _makeSnapshot: true });

// A snapshot contains loaded modules, but no files. The file name makes tracebacks leave these frames out.
python.runPython(`
def prepare():
    import sys
    import types

    package = sys.modules["_cellwright"] = types.ModuleType("_cellwright")
    package.__path__ = []

    def load(name, source):
        module = types.ModuleType("_cellwright." + name)
        sys.modules[module.__name__] = module
        exec(compile(source, "<cellwright>/" + name + ".py", "exec"), module.__dict__)
        setattr(package, name, module)

    package.load = load

prepare()
del prepare
`);
const { load } = python.pyimport("_cellwright") as { load: Loader };
for (const module of modules) {
  const [name = "", file = ""] = module.split("=");
  load(name, deno.readTextFileSync(file));
}
load.destroy();

if (imageDir !== "-") {
  python.FS.mkdirTree("/image");
  python.FS.mount(python.FS.filesystems.NODEFS, { root: imageDir }, "/image");
  const needs = python.pyimport("_cellwright.needs") as { import_packages(names: string): void };
  needs.import_packages(packages);
}

// A native library in the snapshot corrupts it: the heap is saved, the function table is not.
if (Object.keys(python._module.LDSO.loadedLibsByName).length > 1) throw new Error("A native library was loaded.");
deno.writeFileSync(snapshotFile, python.makeMemorySnapshot());

interface Loader {
  (name: string, source: string): void;
  destroy(): void;
}
