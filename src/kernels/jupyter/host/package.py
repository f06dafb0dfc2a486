"""Makes our Python files the package `_cellwright`, wherever they lie, without a place on the user's import path."""

import sys
import types


def install(*folders):
    """Adds these folders to the package; calling it again is harmless."""
    package = sys.modules.get("_cellwright")
    if package is None:
        package = types.ModuleType("_cellwright")
        package.__path__ = []
        sys.modules["_cellwright"] = package
    package.__path__.extend(folder for folder in folders if folder not in package.__path__)
