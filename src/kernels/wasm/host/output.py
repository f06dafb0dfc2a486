"""What a cell prints, on its way out: in order, by the line, within a limit, and known to be that cell's."""

import collections
import contextvars
import json

# What one cell may send. Our process keeps far less than this; beyond it, sending would only cost time.
MAX_CELL_CHARS = 64 * 1024 * 1024
# What is kept of the rest, for the end of the cell: the last lines of a flood are the ones that say why it ended.
TAIL_CHARS = 64 * 1024
# One record of the ring holds this many characters whatever they are.
_PIECE_CHARS = 16 * 1024
# An unfinished line longer than this is sent without waiting for its end.
_MAX_PENDING_CHARS = 8 * 1024


class Cell:
    """One run of a cell, as far as its output goes. Tasks that it leaves behind inherit it through their context."""

    def __init__(self, tag, silent):
        self.tag = tag
        self.silent = silent
        self.sent_chars = 0
        self.left_out_chars = 0
        self.tail = collections.deque()
        self.tail_chars = 0
        self.interrupted = False

    def admits(self, chars):
        """Counts what is about to be sent; False when it has to stay here."""
        if self.sent_chars + chars <= MAX_CELL_CHARS:
            self.sent_chars += chars
            return True
        self.sent_chars = MAX_CELL_CHARS
        return False

    def keep(self, is_stderr, text):
        self.left_out_chars += len(text)
        text = text[-TAIL_CHARS:]
        self.tail.append((is_stderr, text))
        self.tail_chars += len(text)
        while self.tail_chars - len(self.tail[0][1]) >= TAIL_CHARS:
            self.tail_chars -= len(self.tail.popleft()[1])


_current = contextvars.ContextVar("cell")


class Output:
    """Both streams share one buffer, so that they come out in the order they were written."""

    def __init__(self):
        self._host = None
        self._latest = None
        self._pending = ""
        self._pending_stderr = False
        self._pending_cell = None

    def attach(self, host):
        self._host = host
        self._send_stream = host.stream

    def begin(self, cell):
        self._latest = cell
        _current.set(cell)

    def current_cell(self):
        # A callback that JavaScript made has no context of ours: then it is the newest cell's.
        return _current.get(self._latest)

    def write(self, is_stderr, text):
        cell = _current.get(self._latest)
        if cell is not self._pending_cell or is_stderr is not self._pending_stderr:
            self.flush()
            self._pending_cell = cell
            self._pending_stderr = is_stderr
        self._pending += text
        if "\n" in text or len(self._pending) > _MAX_PENDING_CHARS:
            self.flush()

    def flush(self):
        text = self._pending
        if text:
            self._pending = ""
            self._send(self._pending_cell, self._pending_stderr, text)

    def event(self, event):
        """An event that is always sent: it says how the cell went."""
        self.flush()
        self._host.event(self.current_cell().tag, json.dumps(event))

    def display(self, text):
        """An event with a bundle, as JSON; counted like text."""
        self.flush()
        cell = self.current_cell()
        if cell.admits(len(text)):
            self._host.event(cell.tag, text)
        else:
            cell.left_out_chars += len(text)

    def end(self, cell):
        """Sends what was kept back of a cell that said too much."""
        self.flush()
        if not cell.left_out_chars:
            return
        left_out = cell.left_out_chars - cell.tail_chars
        self._emit(
            cell,
            True,
            f"\n<{left_out} characters left out here: a cell may show {MAX_CELL_CHARS // 2**20} MB. "
            "Write long output to a file in the workspace.>\n",
        )
        for is_stderr, text in cell.tail:
            self._emit(cell, is_stderr, text)
        cell.tail.clear()

    def _send(self, cell, is_stderr, text):
        if cell is None:
            return
        if cell.admits(len(text)):
            self._emit(cell, is_stderr, text)
        else:
            cell.keep(is_stderr, text)

    def _emit(self, cell, is_stderr, text):
        if len(text) <= _PIECE_CHARS:
            self._send_stream(is_stderr, cell.tag, text)
            return
        for start in range(0, len(text), _PIECE_CHARS):
            self._send_stream(is_stderr, cell.tag, text[start : start + _PIECE_CHARS])
