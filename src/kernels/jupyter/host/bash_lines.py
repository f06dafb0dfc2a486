"""What a shell is told: the same as src/kernels/bash/driver.ts, which says why, for a shell beside a remote kernel."""

import base64
import json
import re

COMMAND = ["bash", "--noprofile", "--norc", "--noediting", "-i"]

# Out of the way of those that scripts open themselves.
_REPORT_FD = 59

_FUNCTIONS = {
    "__cellwright_begin": "builtin set -E; builtin printf 'begin %%s\\0' \"$1\" >&%d" % _REPORT_FD,
    "__cellwright_status": 'builtin return "$1"',
    "__cellwright_end": (
        'builtin local "status=$?"; '
        "if [[ $__cellwright_errexit ]]; then __cellwright_errexit=; builtin set -e; fi; "
        "builtin printf 'end %%s %%s\\0' \"$1\" \"$status\" >&%d" % _REPORT_FD
    ),
    "__cellwright_stops": "[[ $- == *e* && $BASHPID == $$ ]]",
}
_ON_FAILURE = "if __cellwright_stops; then builtin return 2>/dev/null || { builtin set +e; __cellwright_errexit=1; }; fi"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def setup(report_fd):
    """Makes a new shell ours. It reports `ready` when it is."""
    lines = [
        "PS1= PS2= __cellwright_errexit=",
        "unset MAILCHECK",
        "set +m +H +o history",
        "exec %d>&%d %d>&-" % (_REPORT_FD, report_fd, report_fd),
        *("%s() { %s; }" % each for each in _FUNCTIONS.items()),
        "readonly -f " + " ".join(_FUNCTIONS),
        "trap %s ERR" % quoted(_ON_FAILURE),
        "builtin printf 'ready %%s\\0' \"$BASH_VERSION\" >&%d" % _REPORT_FD,
    ]
    return "\n".join(lines) + "\n"


def cell(files, number, token, status):
    """Runs a cell. `files`: cell, stdout, stderr, and variables if there are any."""
    around = "</dev/null >|%s 2>|%s %d>&-" % (quoted(files["stdout"]), quoted(files["stderr"]), _REPORT_FD)
    then = "&&" if status == 0 else "||"
    lines = []
    if "variables" in files:
        lines.append("\\builtin source %s %s" % (quoted(files["variables"]), around))
    source = "\\builtin source %s %s" % (quoted(files["cell"]), around)
    lines.append("__cellwright_begin %d && { __cellwright_status %d %s %s; }" % (number, status, then, source))
    return "\n".join(lines) + "\n" + end(token)


def end(token):
    return "__cellwright_end %s\n" % token


def quoted(text):
    return "'%s'" % text.replace("'", "'\\''")


def assignments(variables):
    return "".join("%s=%s\n" % (name, quoted(_text(value))) for name, value in variables.items())


def obstacle(code, variables):
    """Why a shell cannot have this cell, as a sentence; None when it can."""
    if "\0" in code:
        line = code[: code.index("\0")].count("\n") + 1
        return "The code has a NUL character in line %d, which no shell can read." % line
    for name, value in variables.items():
        shown = json.dumps(name[:100])
        if not _NAME.fullmatch(name):
            return "%s cannot be the name of a shell variable: use letters, digits and `_`." % shown
        if "\0" in _text(value):
            return "The value of %s has a NUL character, which no shell variable can hold." % shown
    return None


def _text(value):
    """Text as it is, bytes as base64, all else as JSON."""
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
