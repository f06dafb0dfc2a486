"""Imports our modules from a message instead of a folder; see remote/boot.ts, which runs this file first."""

import importlib.abc
import importlib.machinery
import sys
import types

# The prefix of the modules' file names in tracebacks.
FOLDER = "<cellwright>"


class _Loader(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    def __init__(self, sources):
        self._sources = sources

    def find_spec(self, name, path=None, target=None):
        package, _, module = name.partition(".")
        if package != "_cellwright" or module not in self._sources:
            return None
        return importlib.machinery.ModuleSpec(name, self, origin=_file_of(module))

    def exec_module(self, module):
        name = module.__name__.partition(".")[2]
        exec(compile(self._sources[name], _file_of(name), "exec", dont_inherit=True), module.__dict__)

    def create_module(self, spec):
        return None


def _file_of(module):
    return f"{FOLDER}/{module}.py"


def install(sources):
    package = types.ModuleType("_cellwright")
    package.__path__ = [FOLDER]
    sys.modules["_cellwright"] = package
    sys.meta_path.insert(0, _Loader(sources))


if __name__ == "_cellwright_loader":
    install(globals()["load"]["modules"])
    from _cellwright import attach

    attach.become(globals()["load"]["request"])
