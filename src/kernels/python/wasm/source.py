"""Compiles a cell: its statements, and the last expression separately for its value."""

import __future__

import ast
import inspect
import io
import linecache

_FUTURE_FLAGS = 0
for _name in __future__.all_feature_names:
    _FUTURE_FLAGS |= getattr(__future__, _name).compiler_flag


class Compiler:
    def __init__(self):
        # `from __future__ import …` applies to all later cells, as in a notebook.
        self._flags = 0

    def compile(self, source, filename):
        """The code objects to run in order; the last one is an expression if `has_value`."""
        # Tracebacks find the cell's lines here. No modification time: never compared with a file.
        linecache.cache[filename] = (len(source), None, _lines(source), filename)
        flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT | self._flags
        try:
            tree = compile(source, filename, "exec", flags | ast.PyCF_ONLY_AST, dont_inherit=True)
        except SyntaxError as error:
            _explain_magic(error, source)
            raise
        last = None
        if tree.body and isinstance(tree.body[-1], ast.Expr) and not _ends_quietly(source, tree.body[-1]):
            last = ast.Expression(tree.body.pop().value)
        codes = [compile(tree, filename, "exec", flags, dont_inherit=True)]
        self._flags |= codes[0].co_flags & _FUTURE_FLAGS
        if last is not None:
            codes.append(compile(last, filename, "eval", flags | self._flags, dont_inherit=True))
        return codes, last is not None


def is_awaitable(code):
    return bool(code.co_flags & inspect.CO_COROUTINE)


def _ends_quietly(source, statement):
    """Whether a `;` follows the last expression, which hides its value."""
    rest = _lines(source)[statement.end_lineno - 1].encode()[statement.end_col_offset :]
    return rest.lstrip(b" \t)").startswith(b";")


def _explain_magic(error, source):
    lines = _lines(source)
    line = lines[error.lineno - 1].lstrip() if error.lineno and error.lineno <= len(lines) else ""
    if line.startswith(("!", "%")):
        error.add_note("Lines with ! or % are IPython commands. This kernel runs plain Python and has no shell.")


def _lines(source):
    """The lines as Python counts them: `str.splitlines` also splits at form feeds and separators (U+2028)."""
    return io.StringIO(source, newline=None).readlines()
