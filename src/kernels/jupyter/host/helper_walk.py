"""Opens paths below a folder, name by name from one held folder to the next.

Nothing that is swapped behind it can lead it out. It follows links itself: relative ones, and never above the root.
The same as `src/workspace/open.ts`, for folders of another machine. Names are bytes: not all of them are text.
"""

import contextlib
import errno
import os
import re
import stat
import sys

MAX_DEPTH = 128
# As many as Linux follows before it says ELOOP.
MAX_LINKS = 40
# Names looked through for a suggestion.
MAX_SUGGESTIONS_FROM = 1_000

# "Only a reference": needs no permission on the file, never blocks on a FIFO, wakes no device. Python 3.9 does not name it.
O_PATH = getattr(os, "O_PATH", 0o10000000 if sys.platform == "linux" else 0)
FOLDER = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW

# Removed, or replaced by something that is not entered.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
TEMPORARY = re.compile(rb"\.cellwright-[0-9a-f]{16}\.tmp\Z")


class Refusal(Exception):
    """Something is not done; `remote/refusal.ts` says so in words."""

    def __init__(self, kind, **facts):
        super().__init__(kind)
        self.facts = {"kind": kind, **facts}


def outside(why):
    return Refusal("outside", why=why)


def temporary_name():
    """Our own half-done work inside a workspace, which no listing shows."""
    return b".cellwright-%s.tmp" % os.urandom(8).hex().encode()


def notebooks_folder(notebooks):
    """Relative to the home of the server's user."""
    home = os.path.expanduser("~")
    return os.fsencode(os.path.join(home, os.path.expanduser(notebooks)))


def session_root(notebooks, session):
    """A session's folder; that of all of them if none is named."""
    if session == "":
        return notebooks_folder(notebooks)
    if not SESSION_ID.match(session):
        raise Refusal("bug", what="no session id")
    return os.path.join(notebooks_folder(notebooks), session.encode())


def make_private(path):
    """Makes a folder, and those above it that are missing, for the server's user alone."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_private(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


class Folder:
    """A directory that was entered without following a link, held open."""

    def __init__(self, path, parent=None):
        self.fd = os.open(path, FOLDER, dir_fd=parent)
        self.name = path

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.fd)

    def enter(self, name):
        return Folder(name, self.fd)

    def look(self, name):
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except FileNotFoundError:
            return None

    def make(self, name):
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, 0o700, dir_fd=self.fd)

    def entries(self):
        """Names and whether they are folders, bit by bit."""
        fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd)
        try:
            with os.scandir(fd) as found:
                for entry in found:
                    yield os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)
        finally:
            os.close(fd)

    def open_file(self, name, accept):
        """Opens a file for reading without blocking, if `accept` does not raise for what it turns out to be."""
        if not O_PATH:
            accept(os.stat(name, dir_fd=self.fd, follow_symlinks=False))
            fd = os.open(name, os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW, dir_fd=self.fd)
            return _accepted(fd, accept)
        reference = os.open(name, O_PATH | os.O_NOFOLLOW, dir_fd=self.fd)
        try:
            accept(os.fstat(reference))
            return os.open("/proc/self/fd/%d" % reference, os.O_RDONLY | os.O_NONBLOCK)
        finally:
            os.close(reference)

    def open_up(self, name):
        """A cell may have taken its own folder's permissions away; without them it can be neither emptied nor moved."""
        stats = self.look(name)
        if stats is None or stats.st_mode & 0o700 == 0o700:
            return
        if not O_PATH:
            os.chmod(name, 0o700, dir_fd=self.fd, follow_symlinks=False)
            return
        with self.enter(name) as inside:
            os.chmod("/proc/self/fd/%d" % inside.fd, 0o700)


def _accepted(fd, accept):
    try:
        accept(os.fstat(fd))
        return fd
    except BaseException:
        os.close(fd)
        raise


class Place:
    """Where a path leads: a name in a held folder. The name is `.` for the root itself; no stats: nothing is there."""

    def __init__(self, trail, name, stats):
        self.folder = trail[-1]
        self.name = name
        self.stats = stats
        # The way to it, without links.
        self.names = [*(folder.name for folder in trail[1:]), *([] if name == b"." else [name])]


@contextlib.contextmanager
def opened(root, names, create=False, keep_last_link=False):
    """`keep_last_link` stops at a link in the last part instead of following it, to remove it."""
    trail = []
    try:
        if create:
            make_private(root)
        trail.append(Folder(root))
        yield _walk(trail, [name.encode() for name in reversed(names)], create, keep_last_link)
    finally:
        for folder in reversed(trail):
            folder.close()


def _walk(trail, pending, create, keep_last_link):
    links = 0
    while True:
        folder = trail[-1]
        if not pending:
            return Place(trail, b".", folder.look(b"."))
        name = pending.pop()
        if name == b"..":
            if len(trail) == 1:
                raise outside("a link in it leads out of the workspace")
            trail.pop().close()
            continue
        stats = folder.look(name)
        last = not pending
        if stats and stat.S_ISLNK(stats.st_mode) and not (last and keep_last_link):
            links += 1
            if links > MAX_LINKS:
                raise outside("it goes through too many links")
            target = os.readlink(name, dir_fd=folder.fd)
            if target.startswith(b"/"):
                raise outside("a link in it leads out of the workspace")
            pending.extend(step for step in reversed(target.split(b"/")) if step not in (b"", b"."))
            continue
        if last:
            return Place(trail, name, stats)
        if not stats:
            if not create:
                raise missing(folder, name)
            folder.make(name)
        if len(trail) > MAX_DEPTH:
            raise outside("the links in it lead too deep")
        trail.append(folder.enter(name))


def missing(folder, name):
    there = []
    for other, _ in folder.entries():
        if len(there) == MAX_SUGGESTIONS_FROM:
            break
        with contextlib.suppress(UnicodeDecodeError):
            there.append(other.decode())
    return Refusal("missing", name=shown(name), there=there)


def ordinary(stats):
    """Only a regular file with one name: another name may be outside, and the rest can block or do things when opened."""
    if stat.S_ISDIR(stats.st_mode):
        raise Refusal("wrong", what="is a folder, not a file")
    if stat.S_ISLNK(stats.st_mode):
        raise outside("it was replaced by a link")
    if not stat.S_ISREG(stats.st_mode):
        raise outside("it is not an ordinary file")
    if stats.st_nlink > 1:
        raise outside("the file has a second name (hard link)")


def shown(name):
    return name.decode("utf-8", "replace")
