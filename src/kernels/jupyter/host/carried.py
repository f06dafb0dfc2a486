"""Our modules when they came with a message, and lie in no folder; see remote/boot.ts, which runs this file first."""

import importlib.abc
import importlib.machinery
import sys
import types

# What their frames' file names begin with.
FOLDER = "<cellwright>"


class _Carried(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package != "_cellwright" or module not in self._sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=f"{FOLDER}/{module}.py")

    def exec_module(self, module):
        source = self._sources[module.__name__.partition(".")[2]]
        exec(compile(source, module.__spec__.origin, "exec", dont_inherit=True), module.__dict__)

    def create_module(self, spec):
        return None


def install(sources):
    package = types.ModuleType("_cellwright")
    package.__path__ = [FOLDER]
    sys.modules["_cellwright"] = package
    sys.meta_path.insert(0, _Carried(sources))


if __name__ == "_cellwright_carried":
    install(globals()["load"]["modules"])
    from _cellwright import live

    live.become(globals()["load"]["request"])
