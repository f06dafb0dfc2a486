"""Lines that are exactly `%pip install …` or `!pip install …`: the server has installed what they name by now."""

import re

_LINE = re.compile(r"^(\s*)[!%]\s*pip3?\s+install\b(.*)$", re.DOTALL)


def replace(lines):
    """An input transformer of IPython's."""
    return [_said(line) for line in lines]


def _said(line):
    found = _LINE.match(line.rstrip("\n"))
    if not found:
        return line
    indent, what = found.groups()
    return f"{indent}print({f'pip install{what}: done before this cell began.'!r})\n"
