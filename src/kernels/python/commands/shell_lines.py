"""Lines of a cell that are shell commands without a `!`: `ls -la`, `git status`. Off by default.

Python wins: a line that begins with a defined name or a keyword is Python. Otherwise, a line whose first word is a
command is a command. Commands become calls of `get_ipython().run_shell`, on the same line; consecutive ones become one
script.
"""

import ast
import builtins
import keyword
import os
import re
import shutil
import subprocess
import sys
import textwrap
import warnings

from IPython.core.inputtransformer2 import TransformerManager

from _cellwright import pip_lines

# Builtins of bash that are not also Python's.
_BUILTINS = frozenset(
    "alias bg bind builtin caller cd command compgen complete declare dirs disown echo enable export false fc fg"
    " getopts hash history jobs kill let local logout mapfile popd printf pushd pwd read readarray readonly shift shopt"
    " source suspend test time times trap true typeset ulimit umask unalias unset wait".split()
)
_SIGNS = frozenset(("[", "[[", ".", ":"))
# The first word of a command, after variable assignments for this command.
_COMMAND = re.compile(r"((?:[A-Za-z_]\w*=[^\s;&|<>()]*\s+)*)([^\s;&|<>()]+)(.*)", re.DOTALL)
_ASSIGNED = re.compile(r"\s*(?:=(?!=)|:=|:|(?:[-+*/%@&|^]|//|\*\*|<<|>>)=)")
# After a name, in a line that parses as Python, these make it Python.
_OPERATOR = re.compile(r"\s*(?:==|!=|<=|>=|\+|%|//|\*\*|(?:is|in|and|or|if)\s)")
_OPERATORS_OF_SHELL = re.compile(r"[;&|<>`$(){}\n\\]")
_PIP = re.compile(r"(?:python3?\s+-m\s+)?pip3?(\s.*|)$")
_GOES_ON = re.compile(r"(?:else|elif|except|finally|case)\b|\s")
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_JOINED = re.compile(r"(?:\\|\||&&)\s*$")
_FLAGS = ast.PyCF_ONLY_AST | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
# A statement that is not complete after this many attempts is left to Python, which reports the error.
_MAX_LOOKS = 200


def translate(code, shell):
    """The cell with its commands replaced by Python calls."""
    lines = textwrap.dedent(code).split("\n")
    filled = [line for line in lines if _is_filled(line)]
    if not filled or filled[0].startswith("%%"):
        return code
    names = _Names(shell)
    if len(filled) == 1:
        magic = _as_magic(filled[0], shell, names)
        if magic is not None:
            return "\n".join(magic if line is filled[0] else line for line in lines)
    pieces = list(_pieces(lines, names))
    if not any(piece.is_command for piece in pieces):
        return code
    if _is_script(pieces, code):
        pieces = [_Piece(pieces[0].start, pieces[-1].end, True)]
    return "\n".join(_written(lines, _joined(pieces, lines), shell))


class _Names:
    """The names that are defined when a line of the cell is reached."""

    def __init__(self, shell):
        self._shell = shell
        self._bound = set()
        # After `from … import *`.
        self.are_unknown = False

    def has(self, name):
        return name in self._shell.user_ns or hasattr(builtins, name) or name in self._bound

    def add(self, tree):
        for node in ast.walk(tree):
            if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
                self._bound.add(node.id)
            elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
                self._bound.add(node.name)
            elif isinstance(node, ast.alias):
                self.are_unknown = self.are_unknown or node.name == "*"
                self._bound.add((node.asname or node.name).partition(".")[0])


class _Piece:
    """Lines from `start` to before `end`."""

    def __init__(self, start, end, is_command, is_python=True):
        self.start = start
        self.end = end
        self.is_command = is_command
        # False if it is neither a command nor Python.
        self.is_python = is_python


def _pieces(lines, names):
    at = 0
    while at < len(lines):
        if not _is_filled(lines[at]):
            at += 1
            continue
        if _is_command(lines[at], names):
            end = _end_of_command(lines, at)
            yield _Piece(at, end, True)
        else:
            end, tree = _end_of_statement(lines, at)
            yield _Piece(at, end, False, tree is not None)
            if tree is not None:
                names.add(tree)
        at = end


def _is_filled(line):
    stripped = line.strip()
    return stripped != "" and not stripped.startswith("#")


def _parts(line, names):
    """Variable assignments, first word and the rest of a line that may be a command; None if it is Python."""
    found = _COMMAND.match(line)
    if not found or line[0].isspace():
        return None
    _, word, rest = found.groups()
    if "=" in word or rest.startswith("(") or _ASSIGNED.match(rest) or keyword.iskeyword(word):
        return None
    return None if word.isidentifier() and names.has(word) else found.groups()


def _is_command(line, names):
    parts = _parts(line, names)
    if parts is None:
        return False
    settings, word, rest = parts
    may_be_python = settings or word in _SIGNS or names.are_unknown or _OPERATOR.match(rest)
    if may_be_python and _parsed(line) is not None:
        return False
    return word in _BUILTINS or word in _SIGNS or _finds(word)


def _finds(word):
    if not re.match(r"[\w./~]", word):
        return False
    if "/" not in word:
        return shutil.which(word) is not None
    path = os.path.expanduser(word)
    return os.path.isfile(path) and os.access(path, os.X_OK)


def _end_of_command(lines, start):
    """The line after the command, including continued lines, quotations and here-documents."""
    end = start + 1
    while end < len(lines):
        text = "\n".join(lines[start:end])
        here = _HERE_DOCUMENT.search(lines[start])
        if here and here.group(2) in (line.strip() for line in lines[start + 1 :]):
            if lines[end - 1].strip() == here.group(2) and end > start + 1:
                break
        elif not (_JOINED.search(text) or (_is_open(text) and not _is_open("\n".join(lines[start:])))):
            break
        end += 1
    return end


def _is_open(text):
    """Whether a quotation is unclosed."""
    quote = None
    escaped = False
    for sign in text:
        if escaped:
            escaped = False
        elif sign == "\\" and quote != "'":
            escaped = True
        elif quote is None and sign in "'\"":
            quote = sign
        elif sign == quote:
            quote = None
    return quote is not None


def _end_of_statement(lines, start):
    """The line after the statement, and its AST. If it is not Python: the end of the cell, and None."""
    looks = 0
    for end in range(start + 1, len(lines) + 1):
        following = next((line for line in lines[end:] if _is_filled(line)), "")
        if end < len(lines) and (not _is_filled(lines[end]) or _GOES_ON.match(following)):
            continue
        tree = _parsed("\n".join(lines[start:end]))
        if tree is not None:
            return end, tree
        looks += 1
        if looks == _MAX_LOOKS:
            break
    return len(lines), None


def _parsed(text):
    """The AST of Python or of IPython's syntax, with ! and %; None if it is neither."""
    for source in (lambda: text, lambda: TransformerManager().transform_cell(text)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                return compile(source(), "<cell>", "exec", _FLAGS, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
    return None


def _is_script(pieces, code):
    """Whether the whole cell is a shell script: it begins with a command and is not Python, as with a shell loop."""
    if not pieces[0].is_command or all(piece.is_python for piece in pieces):
        return False
    bash = shutil.which("bash")
    if bash is None:
        return False
    checked = subprocess.run([bash, "-n", "-c", code], stdin=subprocess.DEVNULL, capture_output=True)
    return checked.returncode == 0


def _joined(pieces, lines):
    """Joins consecutive commands, which then share variables and functions."""
    joined = []
    for piece in pieces:
        # pip does not run in the shell; see `_pip`.
        is_first = not joined or any(_PIP.match(lines[each.start]) for each in (piece, joined[-1]))
        if not is_first and piece.is_command and joined[-1].is_command:
            joined[-1] = _Piece(joined[-1].start, piece.end, True)
        else:
            joined.append(piece)
    return joined


def _written(lines, pieces, shell):
    written = list(lines)
    for piece in pieces:
        if not piece.is_command:
            continue
        count = piece.end - piece.start
        text = "\n".join(lines[piece.start : piece.end])
        call = _pip(text, shell) or f"get_ipython().run_shell({text!r})"
        # Lines of Python keep their numbers.
        written[piece.start : piece.end] = [call] + [""] * (count - 1)
    return written


def _as_magic(line, shell, names):
    """For a cell of one line: IPython has magics for the most common commands, and some of them return a value."""
    parts = _parts(line, names)
    if parts is None:
        return None
    settings, word, rest = parts
    # The word need not be a command on this machine.
    if settings or not word.isidentifier() or (_OPERATOR.match(rest) and _parsed(line) is not None):
        return None
    rest = rest.strip()
    if word == "cd" and not _OPERATORS_OF_SHELL.search(rest):
        return f"get_ipython().run_shell({line.strip()!r}, tells_folder=True)"
    if shell.find_line_magic(word) is None or (word in ("cd", "pwd") and rest):
        return None
    pip = _pip(line, shell)
    if pip is not None:
        return pip
    if shell.alias_manager.is_alias(word):
        # The output has no colors.
        command = shell.alias_manager.get_alias(word).cmd.replace(" --color", "")
        if "%" in command or _OPERATORS_OF_SHELL.search(rest):
            return None
        return f"get_ipython().run_shell({f'{command} {rest}'.rstrip()!r})"
    return f"get_ipython().run_line_magic({word!r}, {rest!r})"


def _pip(text, shell):
    """Uses the pip of the Python that runs the cell, not the first one on the PATH."""
    found = _PIP.match(text.strip())
    if not found or _OPERATORS_OF_SHELL.search(re.sub(r"'[^']*'|\"[^\"]*\"", "", found.group(1))):
        return None
    rest = found.group(1).strip()
    if any(isinstance(each, pip_lines.Replaced) for each in shell.ast_transformers):
        return f"get_ipython().run_line_magic('pip', {rest!r})"
    quoted = "'" + sys.executable.replace("'", "'\\''") + "'"
    return f"get_ipython().run_shell({f'{quoted} -m pip {rest}'.rstrip()!r})"
