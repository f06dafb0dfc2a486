"""Which paths a session may change in folders that contain protected names, where Landlock cannot grant everything."""

import os
import unicodedata


class GuardedFolders:
    def __init__(self, granted, guarded):
        """`granted`: paths that Landlock grants. `guarded`: folders that it cannot grant as a whole, and exceptions."""
        self._granted = {}
        for path in granted:
            try:
                found = os.stat(path)
            except OSError:
                continue
            self._granted[os.fsencode(path)] = found.st_dev, found.st_ino
        self._guarded = [
            (root, [_folded(path[len(root) :]) for path in map(os.fsencode, folder["except"])])
            for folder in guarded
            for root in [os.fsencode(folder["folder"]).rstrip(b"/")]
        ]

    def is_granted(self, folder):
        """Whether Landlock allows changing names in this folder. It grants what existed at the session's start."""
        for path in _and_above(folder):
            identity = self._granted.get(path)
            if identity is not None:
                try:
                    found = os.stat(path)
                except OSError:
                    return False
                return (found.st_dev, found.st_ino) == identity
        return False

    def may_write(self, path):
        return any(above in self._granted for above in _and_above(path)) or self._is_open(path, leads_on=True)

    def may_change(self, path, leads_on=False):
        """Whether the name may be created, replaced, moved or removed. `leads_on`: even above a protected name."""
        return self.is_granted(os.path.dirname(path)) or self._is_open(path, leads_on)

    def _is_open(self, path, leads_on):
        for root, exceptions in self._guarded:
            if path.startswith(root + b"/"):
                names = _folded(path[len(root) :])
                return not any(_touches(names, exception, leads_on) for exception in exceptions)
        return False


def _touches(names, exception, leads_on):
    """The exception itself, anything below it, and its parents, which could be moved away with it."""
    shorter = min(len(names), len(exception))
    if names[:shorter] != exception[:shorter]:
        return False
    return len(names) >= len(exception) or not leads_on


def _and_above(path):
    while True:
        yield path
        if path in (b"/", b""):
            return
        path = os.path.dirname(path)


def _folded(path):
    """Names as a file system compares them that ignores case or some characters: `.GIT` may be `.git` on the host."""
    return tuple(_folded_name(name) for name in os.fsdecode(path).split("/") if name)


def _folded_name(name):
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return visible.partition(":")[0].rstrip(". ").casefold() or name
