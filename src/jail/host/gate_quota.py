"""
A limit for what is in some folders, counted before it is written: however fast a program writes, it is not passed by more
than the writes that are under way. For programs that are not hostile, such as installers of packages that may be.
"""

import errno
import os
import stat
import struct

from .gate_request import LetThrough, Refused

# What a name takes, and the smallest content.
_BLOCK_BYTES = 4096
# An address and a length.
_VECTOR = struct.Struct("=QQ")
# As many as the kernel takes at once.
_MAX_VECTORS = 1024


def calls(quota):
    if not quota:
        return {}
    counted = _Quota(quota["folders"], quota["bytes"])
    return {
        "write": counted.write,
        "pwrite64": counted.write,
        "writev": counted.write_vectors,
        "pwritev": counted.write_vectors,
        "pwritev2": counted.write_vectors,
    }


class _Quota:
    def __init__(self, folders, most):
        self._folders = folders
        self._most = most
        # Never more than there is room for: what is written over, removed, or not to a file takes none.
        self._left = 0

    def write(self, request):
        self._take(request, request.arguments[2])

    def write_vectors(self, request):
        count = min(request.arguments[2], _MAX_VECTORS)
        vectors = request.read(request.arguments[1], count * _VECTOR.size)
        self._take(request, sum(length for _, length in _VECTOR.iter_unpack(vectors)))

    def _take(self, request, size):
        taken = _taken_by(size)
        if taken > self._left:
            if not _is_file("/proc/%d/fd/%d" % (request.pid, request.arguments[0] & 0xFFFFFFFF)):
                raise LetThrough
            self._left = self._most - sum(map(_bytes_in, self._folders))
            if taken > self._left:
                raise Refused(errno.EDQUOT)
        self._left -= taken
        raise LetThrough


def _taken_by(size):
    """As disk-use.ts counts it. How many blocks a file has is only known once it is written out."""
    return (1 + -(-size // _BLOCK_BYTES)) * _BLOCK_BYTES


def _is_file(path):
    return stat.S_ISREG(os.stat(path).st_mode)


def _bytes_in(folder):
    """Files may come and go meanwhile. One with several names is counted once."""
    linked = {}
    size = 0
    waiting = [folder]
    while waiting:
        try:
            entries = list(os.scandir(waiting.pop()))
        except FileNotFoundError:
            continue
        for entry in entries:
            try:
                found = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue
            if stat.S_ISDIR(found.st_mode):
                waiting.append(entry.path)
                size += _BLOCK_BYTES
            elif found.st_nlink > 1:
                linked[found.st_dev, found.st_ino] = _taken_by(found.st_size)
            else:
                size += _taken_by(found.st_size)
    return size + sum(linked.values())
