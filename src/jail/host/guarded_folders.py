"""Which paths a session may change, where Landlock's grants are not all of it: folders with protected names in them."""

import os
import unicodedata


class GuardedFolders:
    def __init__(self, granted, guarded):
        """`granted`: what Landlock grants. `guarded`: folders of which it cannot grant the whole, and their exceptions."""
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
        """Whether Landlock lets names in this folder change. Its grants are for what was there when the session began."""
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
        """Whether the name may be made, replaced, moved or removed. `leads_on`: a folder may contain a protected name."""
        return self.is_granted(os.path.dirname(path)) or self._is_open(path, leads_on)

    def _is_open(self, path, leads_on):
        for root, exceptions in self._guarded:
            if path.startswith(root + b"/"):
                names = _folded(path[len(root) :])
                return not any(_touches(names, exception, leads_on) for exception in exceptions)
        return False


def _touches(names, exception, leads_on):
    """The exception itself, what is below it, and what is on the way to it, which could be moved away with it."""
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
    """Names as file systems compare them that ignore case or some characters: `.GIT` may be `.git` for the host."""
    return tuple(_folded_name(name) for name in os.fsdecode(path).split("/") if name)


def _folded_name(name):
    visible = "".join(each for each in unicodedata.normalize("NFKC", name) if unicodedata.category(each) != "Cf")
    return visible.partition(":")[0].rstrip(". ").casefold() or name
