"""Registry of instances and kernels: `{notebooks}/.cellwright/instances/` and `kernels/`. Uses this machine's clock."""

import contextlib
import fcntl
import json
import os
import re
import socket
import time

from helper_state import read_json, remove_file, remove_stale, replace, state_entries, state_path
from helper_walk import Refusal, make_private

# An instance sends a heartbeat every 15 s; after four missed ones it is dead.
SILENCE_SECONDS = 60
# Age at which an untouched file is removed.
KEPT_SECONDS = 86_400
_ID = re.compile(r"[A-Za-z0-9-]{1,64}\Z")


def this_server():
    """Identifies the server: several can share a disk, and a kernel belongs to one of them."""
    return "%s %s" % (socket.gethostname(), os.environ.get("JPY_PARENT_PID") or os.getppid())


@contextlib.contextmanager
def locked(notebooks):
    """Exclusive lock, held briefly."""
    make_private(state_path(notebooks))
    fd = os.open(state_path(notebooks, ".lock"), os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def is_alive(notebooks, instance):
    if not isinstance(instance, str) or not _ID.match(instance):
        return False
    try:
        seen = os.lstat(state_path(notebooks, "instances", instance)).st_mtime
    except FileNotFoundError:
        return False
    return time.time() - seen < SILENCE_SECONDS


def heartbeat(again, notebooks, instance):
    path = _path(notebooks, "instances", instance)
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600))
    # Not the clock of a file server.
    now = time.time_ns()
    os.utime(path, ns=(now, now))
    remove_stale(os.path.dirname(path), KEPT_SECONDS)


def instance_ends(again, notebooks, instance):
    """The helper kernel is deleted last, so its mark is removed now; others go with their kernels."""
    remove_file(_path(notebooks, "instances", instance))
    for entry in state_entries(state_path(notebooks, "kernels")):
        mark = read_json(entry.path)
        if mark and mark.get("instance") == instance and mark.get("session") is None:
            remove_file(entry.path)


def mark_kernel(again, notebooks, kernel, mark):
    replace(_path(notebooks, "kernels", kernel), json.dumps({**mark, "server": this_server()}).encode())


def unmark_kernel(again, notebooks, kernel):
    remove_file(_path(notebooks, "kernels", kernel))


def _path(notebooks, folder, name):
    if not _ID.match(name):
        raise Refusal("bug", what="no id")
    path = state_path(notebooks, folder)
    make_private(path)
    return os.path.join(path, name)


OPERATIONS = {
    "heartbeat": heartbeat,
    "instance_ends": instance_ends,
    "mark_kernel": mark_kernel,
    "unmark_kernel": unmark_kernel,
}
