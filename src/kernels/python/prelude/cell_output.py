"""Limits the output of one cell. The tail of the excess is kept and sent when the cell is over."""

import collections
import contextvars

# Limit of one cell. The server keeps far less; sending more would only cost time.
MAX_CELL_CHARS = 64 * 1024 * 1024
# Size of the kept tail: the last lines of a flood of output often explain why it ended.
TAIL_CHARS = 64 * 1024

# The cell whose code runs. Tasks and threads that it starts inherit it in their context.
current = contextvars.ContextVar("cellwright_cell")


class Cell:
    """The output of one run of a cell."""

    def __init__(self, source, silent=False):
        """`source` identifies the cell in the messages of its output."""
        self.source = source
        self.silent = silent
        self.left_out_chars = 0
        self._sent_chars = 0
        self._tail = collections.deque()
        self._tail_chars = 0

    def admit(self, chars):
        """Counts characters that are about to be sent, and returns how many may be."""
        admitted = min(chars, MAX_CELL_CHARS - self._sent_chars)
        self._sent_chars += admitted
        return admitted

    def admits(self, chars):
        """All or nothing. After a refusal, nothing more is admitted."""
        return self.admit(chars) == chars

    def keep(self, stream, text):
        self.left_out_chars += len(text)
        text = text[-TAIL_CHARS:]
        self._tail.append((stream, text))
        self._tail_chars += len(text)
        while self._tail_chars - len(self._tail[0][1]) >= TAIL_CHARS:
            self._tail_chars -= len(self._tail.popleft()[1])

    def take_rest(self, stderr):
        """The note and the tail to send for a cell that exceeded the limit, by stream."""
        if not self.left_out_chars:
            return []
        note = (
            f"\n<{self.left_out_chars - self._tail_chars} characters left out here: a cell may show "
            f"{MAX_CELL_CHARS // 2**20} MB. Write long output to a file in the workspace.>\n"
        )
        rest = [(stderr, note), *self._tail]
        self._tail.clear()
        self.left_out_chars = self._tail_chars = 0
        return rest
