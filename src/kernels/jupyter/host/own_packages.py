"""The session's own packages: a folder on the path that the server adds to while the kernel runs."""

import importlib
import os
import sys

_state = {"folder": None, "seen": {}, "outdated": []}


def use(folder):
    _state["folder"] = folder
    _state["seen"] = _entries()


def refresh():
    """To be called when there are more. Names of modules that are loaded already, and not as they are there now."""
    importlib.invalidate_caches()
    seen, now = _state["seen"], _entries()
    fresh = [name for name in now if _is_other(name, seen.get(name) not in (None, now[name]))]
    _state["outdated"] = sorted(set(_state["outdated"]).union(fresh))
    _state["seen"] = now
    return fresh


def remark():
    """What to say besides that all is installed."""
    names = _state["outdated"]
    if not names:
        return ""
    return f" Loaded before, and used as they were until the session is reset: {', '.join(names)}."


def _entries():
    """Importable names, with what changes when they are replaced."""
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
