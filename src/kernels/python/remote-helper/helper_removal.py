"""Removes folders in slices: other callers wait for the same kernel."""

import errno
import os
import stat
import time

from helper_walk import temporary_name

# Maximum duration of one call.
SLICE_SECONDS = 0.25
# Changed since it was listed.
MOVED = {errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EISDIR, errno.ENOTEMPTY, errno.EEXIST}


def take_away(folder, name, to):
    """Renames a folder, to be emptied later under the returned name. Removes anything else directly."""
    stats = folder.look(name)
    if stats is None:
        return None
    if not stat.S_ISDIR(stats.st_mode):
        os.unlink(name, dir_fd=folder.fd)
        return None
    folder.open_up(name)
    doomed = temporary_name()
    os.rename(name, doomed, src_dir_fd=folder.fd, dst_dir_fd=to.fd)
    return doomed


def empty(folder, name):
    """
    Removes a folder without following links. False: call again, there is more to remove. Nested folders are first moved
    to the top level, so that any depth needs only two open folders.
    """
    deadline = time.monotonic() + SLICE_SECONDS
    with folder.enter(name) as top:
        found = True
        while found:
            found = False
            for child, is_folder in top.entries():
                found = True
                if is_folder:
                    _flatten(top, child, deadline)
                else:
                    _calmly(os.unlink, child, dir_fd=top.fd)
                if time.monotonic() > deadline:
                    return False
    os.rmdir(name, dir_fd=folder.fd)
    return True


def _flatten(top, name, deadline):
    _calmly(top.open_up, name)
    inside = _calmly(top.enter, name)
    if inside is None:
        return
    with inside:
        for child, is_folder in inside.entries():
            if is_folder:
                _calmly(inside.open_up, child)
                _calmly(os.rename, child, temporary_name(), src_dir_fd=inside.fd, dst_dir_fd=top.fd)
            else:
                _calmly(os.unlink, child, dir_fd=inside.fd)
            if time.monotonic() > deadline:
                return
    _calmly(os.rmdir, name, dir_fd=top.fd)


def _calmly(work, *args, **options):
    """Ignores concurrent changes by a cell: a moved entry is found in the next round, or is gone."""
    try:
        return work(*args, **options)
    except OSError as error:
        if error.errno not in MOVED:
            raise
        return None
