"""Who uses what on this server: `{notebooks}/.cellwright/instances/` and `kernels/`, judged by this machine's clock."""

import contextlib
import fcntl
import json
import os
import re
import socket
import time

from helper_walk import Folder, Refusal, make_private, notebooks_folder

# A program says every 15 s that it is there; after four times of silence it is dead.
SILENCE_SECONDS = 60
# A file that nobody touched for so long says nothing any more.
KEPT_SECONDS = 86_400
_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z")


def this_server():
    """Servers may share a disk; a kernel is of one of them."""
    return "%s %s" % (socket.gethostname(), os.environ.get("JPY_PARENT_PID") or os.getppid())


def state_path(notebooks, *names):
    return os.path.join(notebooks_folder(notebooks), b".cellwright", *names)


def state_folder(notebooks):
    return Folder(state_path(notebooks))


@contextlib.contextmanager
def locked(notebooks):
    """One program at a time; held for a moment."""
    make_private(state_path(notebooks))
    fd = os.open(state_path(notebooks, b".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def is_alive(notebooks, instance):
    if not isinstance(instance, str) or not _ID.match(instance):
        return False
    try:
        seen = os.lstat(state_path(notebooks, b"instances", instance.encode())).st_mtime
    except FileNotFoundError:
        return False
    return time.time() - seen < SILENCE_SECONDS


def heartbeat(again, notebooks, instance):
    path = _path(notebooks, b"instances", instance)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    # Not the clock of a file server.
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    with state_folder(notebooks) as state, state.enter(b"instances") as folder:
        for name, _ in folder.entries():
            stats = folder.look(name)
            if stats and time.time() - stats.st_mtime > KEPT_SECONDS:
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=folder.fd)


def instance_ends(again, notebooks, instance):
    """This kernel is the last that the program deletes, and its mark is nobody's then. Others stay until they are gone."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(notebooks, b"instances", instance))
    with contextlib.suppress(FileNotFoundError), state_folder(notebooks) as state, state.enter(b"kernels") as folder:
        for name, _ in folder.entries():
            mark = read_mark(folder, name)
            if mark and mark.get("instance") == instance and mark.get("session") is None:
                os.unlink(name, dir_fd=folder.fd)


def mark_kernel(again, notebooks, kernel, mark):
    path = _path(notebooks, b"kernels", kernel)
    temporary = path + b".tmp"
    with open(os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600), "w") as file:
        json.dump({**mark, "server": this_server()}, file)
    os.rename(temporary, path)


def unmark_kernel(again, notebooks, kernel):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(_path(notebooks, b"kernels", kernel))


def read_mark(folder, name):
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder.fd)
        with open(fd, "rb") as file:
            mark = json.loads(file.read(10_000))
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) else None


def _path(notebooks, folder, name):
    if not _ID.match(name):
        raise Refusal("bug", what="no id")
    path = state_path(notebooks, folder)
    make_private(path)
    return os.path.join(path, name.encode())


OPERATIONS = {
    "heartbeat": heartbeat,
    "instance_ends": instance_ends,
    "mark_kernel": mark_kernel,
    "unmark_kernel": unmark_kernel,
}
