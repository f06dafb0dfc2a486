"""Opens paths below a folder name by name, relative to open folders and without following links.

A link that is created meanwhile is therefore not followed. This keeps file tools inside the workspace. It does not
isolate code, which runs as the same user and can reach other files without links.
The remote counterpart of `src/workspace/local/open.ts`. Names are bytes: not all of them are text.
"""

import contextlib
import errno
import os
import re
import stat
import sys

MAX_DEPTH = 128
# Maximum number of names searched for a suggestion.
MAX_SUGGESTIONS_FROM = 1_000

# O_PATH needs no permission on the file, never blocks on a FIFO, and wakes no device. Not all Pythons define it.
O_PATH = getattr(os, "O_PATH", 0o10000000 if sys.platform == "linux" else 0)
FOLDER = O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW

# Removed, or replaced by something that cannot be entered.
GONE = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)

SESSION_ID = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
TEMPORARY = re.compile(rb"\.cellwright-[0-9a-f]{16}\.tmp\Z")


class Refusal(Exception):
    """An operation is refused; `remote/server/refusal.ts` turns it into a message."""

    def __init__(self, kind, **facts):
        super().__init__(kind)
        self.facts = {"kind": kind, **facts}


def outside(why):
    return Refusal("outside", why=why)


def temporary_name():
    """Name of unfinished work inside a workspace, which listings leave out."""
    return b".cellwright-%s.tmp" % os.urandom(8).hex().encode()


def notebooks_folder(notebooks):
    """`notebooks` is relative to the home of the server's user."""
    home = os.path.expanduser("~")
    return os.fsencode(os.path.join(home, os.path.expanduser(notebooks)))


def session_root(notebooks, session):
    """A session's folder; the folder of all sessions if the id is empty."""
    if session == "":
        return notebooks_folder(notebooks)
    if not SESSION_ID.match(session):
        raise Refusal("bug", what="no session id")
    return os.path.join(notebooks_folder(notebooks), session.encode())


def make_private(path):
    """Creates a folder, and missing parents, for the server's user only."""
    if os.path.isdir(path):
        return
    parent = os.path.dirname(path)
    if parent != path:
        make_private(parent)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)


class Folder:
    """An open directory, entered without following a link."""

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
        """Yields names, and whether they are folders."""
        fd = os.open(b".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=self.fd)
        try:
            with os.scandir(fd) as found:
                for entry in found:
                    yield os.fsencode(entry.name), entry.is_dir(follow_symlinks=False)
        finally:
            os.close(fd)

    def open_file(self, name, accept):
        """Opens a file for reading without blocking. `accept` raises if it must not be opened."""
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
        """Restores permissions that a cell removed: without them a folder can be neither emptied nor moved."""
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
    """A path's target: a name in an open folder. The name is `.` for the root; `stats` is None if nothing exists."""

    def __init__(self, folder, names):
        self.folder = folder
        self.name = names[-1] if names else b"."
        self.stats = folder.look(self.name)
        # Path to it, without links.
        self.names = names


@contextlib.contextmanager
def opened(root, names, create=False, keep_last_link=False):
    """`keep_last_link`: does not follow a link in the last part, so that the link itself can be removed."""
    if create:
        make_private(root)
    with contextlib.ExitStack() as held:
        folder = held.enter_context(Folder(root))
        names = _without_links(root, [name.encode() for name in names], keep_last_link)
        for name in names[:-1]:
            if folder.look(name) is None:
                if not create:
                    raise missing(folder, name)
                folder.make(name)
            folder = held.enter_context(folder.enter(name))
        yield Place(folder, names)


def _without_links(root, names, keep_last_link):
    """Resolves links before folders are entered; a link that is created meanwhile is not followed."""
    last = [names.pop()] if keep_last_link and names else []
    path = os.path.join(root, *names)
    try:
        os.stat(path)
    except OSError as error:
        if error.errno == errno.ELOOP:
            raise outside("it goes through too many links") from None
    root = os.path.realpath(root)
    path = os.path.realpath(path)
    if path != root and not path.startswith(os.path.join(root, b"")):
        raise outside("a link in it leads out of the workspace")
    return [*(step for step in path[len(root) :].split(b"/") if step), *last]


def missing(folder, name):
    there = []
    for other, _ in folder.entries():
        if len(there) == MAX_SUGGESTIONS_FROM:
            break
        with contextlib.suppress(UnicodeDecodeError):
            there.append(other.decode())
    return Refusal("missing", name=shown(name), there=there)


def ordinary(stats):
    """Accepts only a regular file with one hard link: another could be outside, and special files can block or act."""
    if stat.S_ISDIR(stats.st_mode):
        raise Refusal("wrong", what="is a folder, not a file")
    if stat.S_ISLNK(stats.st_mode):
        raise outside("it was replaced by a link")
    if not stat.S_ISREG(stats.st_mode):
        raise outside("it is not an ordinary file")
    if stats.st_nlink > 1:
        raise outside("the file has more than one hard link")


def shown(name):
    return name.decode("utf-8", "replace")
