"""
Our own files on the server, in `{notebooks}/.cellwright/`. Accessed by path, without protection from links: code on
this server runs as the same user and could change the files anyway.
"""

import contextlib
import json
import os
import time

from helper_walk import Refusal, make_private, notebooks_folder, temporary_name


def state_path(notebooks, *names):
    return os.path.join(os.fsdecode(notebooks_folder(notebooks)), ".cellwright", *names)


def state_entries(*path):
    """The entries of a folder; empty if it does not exist."""
    try:
        with os.scandir(os.path.join(*path)) as found:
            return list(found)
    except FileNotFoundError:
        return []


def remove_file(path):
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)


def remove_stale(folder, seconds):
    """Removes files that were untouched for this long."""
    for entry in state_entries(folder):
        with contextlib.suppress(OSError):
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > seconds:
                os.unlink(entry.path)


def read_json(path):
    """None: the file does not exist, or is not a JSON object."""
    try:
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            value = json.loads(file.read(1_000_000))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def replace(path, data):
    """Replaces a file atomically."""
    temporary = os.path.join(os.path.dirname(path), temporary_name().decode())
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    try:
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(temporary, path)
    except BaseException:
        remove_file(temporary)
        raise


def write_at(path, offset, data):
    """Refuses to leave a gap: an earlier piece is missing then."""
    make_private(os.path.dirname(path))
    fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        if os.fstat(fd).st_size < offset:
            raise Refusal("gap")
        os.lseek(fd, offset, os.SEEK_SET)
        write_all(fd, data)
    finally:
        os.close(fd)


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]
