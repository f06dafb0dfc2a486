"""Lines of a cell that install packages: `%pip install …`, `!pip install …` and variants.

The server asks for them, and installs the packages before the cell runs. When the lines run, they only print that.
"""

import ast
import re
import shlex

from IPython.core.inputtransformer2 import TransformerManager

from _cellwright import own_packages

_INSTALL = re.compile(
    r"\s*(?:(?:\{sys\.executable\}|python3?(?:\.\d+)?)\s+-m\s+)?(?:uv\s+)?pip3?\s+install(?:\s+(.*))?$", re.DOTALL
)
# Redirections of the output, which do not matter here.
_REDIRECTED = re.compile(r"(?:\s*(?:(?:&|[12])?>>?\s*(?:/dev/null|&[12])|\|\s*(?:tail|head)(?:\s+-n?\s*\d+)?))+\s*$")
_COMMENT = re.compile(r"(?:^|\s)#[^'\"]*$")
_OPERATOR = re.compile(r"[;&|]+$|\d?[<>]")


_UNMARKED = re.compile(r"^(\s*)(?=pip3?\s+install\b)", re.MULTILINE)


def marked(code):
    """Adds the % where magics work without it."""
    return _UNMARKED.sub(r"\1%", code)


def find(code):
    """The lines as they would run, with the arguments of `pip install`; None if it is more than a plain command."""
    lines = []
    try:
        source = TransformerManager().transform_cell(code)
        _Visitor(lines).visit(compile(source, "<cell>", "exec", _FLAGS, dont_inherit=True))
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # The cell fails with this error by itself.
        return []
    return lines


_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT


class Replaced(ast.NodeTransformer):
    """An AST transformer for IPython: replaces installing lines by a print."""

    def visit_Expr(self, node):
        text = _command(node)
        if text is None:
            return node
        said = f"{text.strip()}: done before this cell began.{own_packages.remark()}"
        line = ast.copy_location(ast.parse(f"print({said!r})").body[0], node)
        return ast.fix_missing_locations(line)


class _Visitor(ast.NodeVisitor):
    def __init__(self, lines):
        self._lines = lines

    def visit_Expr(self, node):
        text = _command(node)
        if text is not None:
            self._lines.append({"text": text.strip(), "words": _words(text)})


def _command(node):
    """The command of a statement that IPython made from a line with ! or %, if it installs packages."""
    call = node.value
    if not (isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.keywords):
        return None
    shell = call.func.value
    if not (isinstance(shell, ast.Call) and isinstance(shell.func, ast.Name) and shell.func.id == "get_ipython"):
        return None
    words = [each.value for each in call.args if isinstance(each, ast.Constant) and isinstance(each.value, str)]
    if len(words) != len(call.args):
        return None
    if not (call.func.attr == "system" and len(words) == 1 or call.func.attr == "run_line_magic" and len(words) == 2):
        return None
    text = " ".join(words)
    return text if _INSTALL.match(text) else None


def _words(text):
    command = _INSTALL.match(text)
    assert command
    rest = _REDIRECTED.sub("", _COMMENT.sub("", command.group(1) or ""))
    try:
        # Quoted text stays in one piece: `"tomli; python_version < '3.11'"`.
        pieces = shlex.shlex(rest, posix=True, punctuation_chars=";&|")
        pieces.commenters = ""
        pieces.whitespace_split = True
        words = list(pieces)
    except ValueError:
        return None
    return None if any(_OPERATOR.match(word) for word in words) else words
