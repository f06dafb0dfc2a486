"""The session's own packages: a folder on the import path, to which the server adds while the kernel runs."""

import importlib
import os
import sys

_state = {"folder": None, "seen": {}, "outdated": []}


def use(folder):
    _state["folder"] = folder
    _state["seen"] = _entries()


def refresh():
    """To be called after an installation. Returns the loaded modules that differ from the installed ones."""
    importlib.invalidate_caches()
    seen, now = _state["seen"], _entries()
    fresh = [name for name in now if _is_other(name, seen.get(name) not in (None, now[name]))]
    _state["outdated"] = sorted(set(_state["outdated"]).union(fresh))
    _state["seen"] = now
    return fresh


def remark():
    """Names the modules that need a reset of the session; empty without any."""
    names = _state["outdated"]
    if not names:
        return ""
    return f" Already imported, so the old version is used until the session is reset: {', '.join(names)}."


def _entries():
    """Importable names with their inodes, which change when they are replaced."""
    found = {}
    try:
        entries = list(os.scandir(_state["folder"]))
    except (OSError, TypeError):
        return found
    for entry in entries:
        name = entry.name.partition(".")[0]
        if name.isidentifier() and (entry.is_dir() or entry.name.endswith((".py", ".so", ".pyd"))):
            found[name] = entry.inode()
    return found


def _is_other(name, was_replaced):
    file = getattr(sys.modules.get(name), "__file__", None)
    if not file:
        return False
    return was_replaced or not file.startswith(os.path.join(_state["folder"], ""))
