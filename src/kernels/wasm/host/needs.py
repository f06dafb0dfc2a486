"""What a cell imports and cannot find, seen without running it; and packages that all cells will import."""

import ast
import importlib
import importlib.util
import sys


def missing_modules(source):
    """Top-level names that the cell is sure to import. Nothing for a cell that does not compile: it fails by itself."""
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
            # Only what certainly runs: a branch may be for a platform that this is not.
            continue
        elif isinstance(statement, ast.With):
            yield from _imported(statement.body)
        elif isinstance(statement, ast.Try) and not statement.handlers:
            # With handlers, the cell has an answer of its own to a module that is not there.
            yield from _imported(statement.body)


def _is_there(name):
    if name in sys.modules or name in sys.stdlib_module_names:
        return True
    try:
        return importlib.util.find_spec(name) is not None
    except Exception:
        return True


def import_packages(names):
    """Imports what these distributions provide, so that it is in the snapshot. What fails to, fails in the cell again."""
    from importlib import metadata

    importlib.invalidate_caches()
    wanted = set(names.split(","))
    for module, distributions in metadata.packages_distributions().items():
        if module.isidentifier() and wanted.intersection(name.lower().replace("_", "-") for name in distributions):
            try:
                importlib.import_module(module)
            except Exception:
                continue
