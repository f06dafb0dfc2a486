"""
A quota for some folders, checked before each write: however fast a program writes, it is exceeded at most by the writes
in progress. For programs that are not hostile themselves, such as installers of untrusted packages.
"""

import errno
import os
import stat
import struct

from .request import LetThrough, Refused

# struct iovec: address and length.
_VECTOR = struct.Struct("=QQ")
# The kernel's limit per call.
_MAX_VECTORS = 1024


def calls(quota):
    if not quota:
        return {}
    counted = _Quota(quota["folders"], quota["bytes"], quota["blockBytes"])
    return {
        "write": counted.write,
        "pwrite64": counted.write,
        "writev": counted.write_vectors,
        "pwritev": counted.write_vectors,
        "pwritev2": counted.write_vectors,
    }


class _Quota:
    def __init__(self, folders, most, block):
        self._folders = folders
        self._most = most
        self._block = block
        # A lower bound of the free space: overwriting, removing and writing to pipes take none, but are counted.
        self._left = 0

    def write(self, request):
        self._take(request, request.arguments[2])

    def write_vectors(self, request):
        count = min(request.arguments[2], _MAX_VECTORS)
        vectors = request.read(request.arguments[1], count * _VECTOR.size)
        self._take(request, sum(length for _, length in _VECTOR.iter_unpack(vectors)))

    def _take(self, request, size):
        taken = self._taken_by(size)
        if taken > self._left:
            if not _is_file("/proc/%d/fd/%d" % (request.pid, request.arguments[0] & 0xFFFFFFFF)):
                raise LetThrough
            self._left = self._most - sum(map(self._bytes_in, self._folders))
            if taken > self._left:
                raise Refused(errno.EDQUOT)
        self._left -= taken
        raise LetThrough

    def _taken_by(self, size):
        """As disk-use.ts counts. The real number of blocks is only known after write-back."""
        return (1 + -(-size // self._block)) * self._block

    def _bytes_in(self, folder):
        """Tolerates files that change meanwhile. A file with several hard links is counted once."""
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
                    size += self._block
                elif found.st_nlink > 1:
                    linked[found.st_dev, found.st_ino] = self._taken_by(found.st_size)
                else:
                    size += self._taken_by(found.st_size)
        return size + sum(linked.values())


def _is_file(path):
    return stat.S_ISREG(os.stat(path).st_mode)
