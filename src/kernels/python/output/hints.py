"""Hints for exceptions that do not say what to do."""

import re
import shutil

_BASH = 'This is a shell command, not Python: run it with language="bash".'
_INSTALL = "Packages are installed with install_packages, or by a line that is exactly `%pip install NAME`."

_RUNNING_LOOP = "A cell runs in an event loop already: write `await main()` instead of asyncio.run(main())."

_PIP = re.compile(r"^(python3? -m )?(pip3?|uv pip|conda|mamba) (install|uninstall)\b")
# A command and its arguments: no operator and no call after the first word.
_COMMAND = re.compile(r"^([a-z][a-z0-9_.+-]*)(\s+[-\w./~$\"'*].*)?$")

_can_install = False


def offer_packages():
    """From now on, a missing module gets a hint to install it."""
    global _can_install
    _can_install = True


def hint(error, code):
    """One line, or None."""
    if isinstance(error, ModuleNotFoundError) and error.name and _can_install:
        return f"`{error.name.partition('.')[0]}` is not installed in this session. {_INSTALL}"
    if type(error) is RuntimeError and "running event loop" in str(error) and "asyncio.run" in str(error):
        return _RUNNING_LOOP
    if isinstance(error, SyntaxError):
        lines = code.splitlines()
        line = lines[error.lineno - 1] if error.lineno and error.lineno <= len(lines) else ""
        return _about_line(line.strip())
    if isinstance(error, NameError):
        lines = [line for line in code.splitlines() if line.strip()]
        return _about_line(lines[0].strip()) if len(lines) == 1 else None
    return None


def _about_line(line):
    if _PIP.match(line):
        return _INSTALL if _can_install else _BASH
    command = _COMMAND.match(line)
    return _BASH if command and shutil.which(command.group(1)) else None
