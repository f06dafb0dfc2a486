"""The output of a cell: ordered, line-buffered, limited, and attributed to its cell."""

import json

from _cellwright.cell_output import current as current_cell

# One record of the ring holds this many characters of any kind.
_PIECE_CHARS = 16 * 1024
# An unfinished line longer than this is sent at once.
_MAX_PENDING_CHARS = 8 * 1024


class Output:
    """Both streams share one buffer, so that their output stays in order."""

    def __init__(self):
        self._latest = None
        self._pending = ""
        self._pending_stderr = False
        self._pending_cell = None

    def attach(self, host):
        self._host = host
        self._send_stream = host.stream

    def begin(self, cell):
        self._latest = cell
        current_cell.set(cell)

    def write(self, is_stderr, text):
        # A callback from JavaScript does not have the cell's context: its output belongs to the newest cell.
        cell = current_cell.get(self._latest)
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
        """Sends an event without counting it: it tells how the cell went."""
        self.flush()
        self._host.event(current_cell.get(self._latest).source, json.dumps(event))

    def display(self, text):
        """Sends an event with a bundle, as JSON; it counts like text."""
        self.flush()
        cell = current_cell.get(self._latest)
        if cell.admits(len(text)):
            self._host.event(cell.source, text)
        else:
            cell.left_out_chars += len(text)

    def end(self, cell):
        """Sends the end of an output that exceeded the limit."""
        self.flush()
        for is_stderr, text in cell.take_rest(stderr=True):
            self._emit(cell, is_stderr, text)

    def done(self, cell, event):
        """The last event of a cell."""
        self._host.done(cell.source, json.dumps(event))

    def _send(self, cell, is_stderr, text):
        if cell is None:
            return
        admitted = cell.admit(len(text))
        if admitted == len(text):
            self._emit(cell, is_stderr, text)
            return
        if admitted:
            self._emit(cell, is_stderr, text[:admitted])
        cell.keep(is_stderr, text[admitted:])

    def _emit(self, cell, is_stderr, text):
        if len(text) <= _PIECE_CHARS:
            self._send_stream(is_stderr, cell.source, text)
            return
        for start in range(0, len(text), _PIECE_CHARS):
            self._send_stream(is_stderr, cell.source, text[start : start + _PIECE_CHARS])
