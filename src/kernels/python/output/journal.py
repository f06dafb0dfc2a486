"""
The newest cell's output in a file, for a server that adopts the kernel: the frames of each message as sent,
`[u32 count]([u32 length][frame])*`, big-endian. Earlier cells may come before it.
"""

import os
import struct
from typing import Union

# About the limit of a cell's output; see prelude/cell_output.py.
MAX_BYTES = 64 * 1024 * 1024
# On some systems, truncating takes as long as a small cell, so it is not done for each cell.
_MAX_EARLIER_BYTES = 4 * 1024 * 1024

_length = struct.Struct(">I")


class Journal:
    """Used only in the sending thread, so it has the order of sending."""

    def __init__(self, fd):
        self._fd = fd
        self._size = 0
        self._left = MAX_BYTES

    def begin_cell(self):
        self._left = MAX_BYTES
        if self._size > _MAX_EARLIER_BYTES:
            self._attempt(lambda: os.ftruncate(self._fd, 0))
            self._size = 0

    def write(self, frames):
        parts: list[Union[bytes, memoryview]] = [_length.pack(len(frames))]
        for frame in frames:
            # Frames are bytes or ZeroMQ frames.
            data = memoryview(frame)
            parts += (_length.pack(data.nbytes), data)
        record = b"".join(parts)
        self._left -= len(record)
        # After a gap, the rest would be misleading.
        if self._left >= 0:
            self._size += len(record)
            self._attempt(lambda: os.write(self._fd, record))

    def _attempt(self, act):
        """A full disk disables the journal but does not fail the cell."""
        try:
            act()
        except OSError:
            self._left = -1
