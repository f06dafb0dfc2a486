"""
What the newest cell has shown, kept in a file for a server that has to start again: the frames of each message as they
are sent, `[u32 count]([u32 length][frame])*`, big-endian. Earlier cells may stand before it.
"""

import os
import struct

# A cell may show as much as this; see output.py.
MAX_BYTES = 64 * 1024 * 1024
# Cutting the file costs some systems as much as a small cell takes, so it is not done for each of them.
_MAX_EARLIER_BYTES = 4 * 1024 * 1024

_length = struct.Struct(">I")


class Journal:
    """All of it is used in the thread that sends, in the order of sending."""

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
        parts = [_length.pack(len(frames))]
        for frame in frames:
            # Frames are bytes, or objects of ZeroMQ that have them.
            data = memoryview(frame)
            parts += (_length.pack(data.nbytes), data)
        record = b"".join(parts)
        self._left -= len(record)
        # Once something is missing, the rest would be misleading.
        if self._left >= 0:
            self._size += len(record)
            self._attempt(lambda: os.write(self._fd, record))

    def _attempt(self, act):
        """A full disk costs the journal, not the cell."""
        try:
            act()
        except OSError:
            self._left = -1
