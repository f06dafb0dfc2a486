"""Finds a cell's missing imports without running it, and imports packages into a snapshot."""

import ast
import importlib
import importlib.util
import sys


def missing_modules(source):
    """Missing top-level modules that the cell certainly imports. Empty if it does not compile: it fails by itself."""
    try:
        tree = compile(source, "<cell>", "exec", ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []
    names = dict.fromkeys(name.partition(".")[0] for name in _imported(tree.body))
    return [name for name in names if not _is_there(name)]


def _imported(statements):
    for statement in statements:
        if isinstance(statement, ast.Import):
            yield from (alias.name for alias in statement.names)
        elif isinstance(statement, ast.ImportFrom):
            if statement.level == 0 and statement.module:
                yield statement.module
        elif isinstance(statement, (ast.If, ast.For, ast.While)):
            # Only certain imports: a branch may be for another platform.
            continue
        elif isinstance(statement, ast.With):
            yield from _imported(statement.body)
        elif isinstance(statement, ast.Try) and not statement.handlers:
            # With handlers, the cell itself deals with a missing module.
            yield from _imported(statement.body)


def _is_there(name):
    if name in sys.modules or name in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return True


def import_packages(names):
    """Imports the modules of these distributions into the snapshot. Failures are ignored: they recur in the cell."""
    from importlib import metadata

    importlib.invalidate_caches()
    wanted = set(names.split(","))
    for module, distributions in metadata.packages_distributions().items():
        if module.isidentifier() and wanted.intersection(name.lower().replace("_", "-") for name in distributions):
            try:
                importlib.import_module(module)
            except Exception:
                continue
