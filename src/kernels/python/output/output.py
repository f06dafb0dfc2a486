"""Buffers cells' output for the sending thread: in order, within limits, and assigned to the right cell."""

import json
import os
import threading
import time

from _cellwright import cell_output, interrupts, mime

# Characters per message; a longer text is split.
_PIECE_CHARS = 32 * 1024
# Text is buffered for this time, or up to _MAX_PENDING_CHARS.
_FLUSH_SECONDS = 0.05
_LONGEST_FLUSH_SECONDS = 1
_MAX_PENDING_CHARS = 16 * 1024
_LOOK_SECONDS = 0.0002
# Back-pressure: a cell blocks when this many bytes wait for the server.
_MAX_WAITING_BYTES = 8 * 1024 * 1024


class Output:
    """Both streams share one buffer, which keeps the order of writing."""

    def __init__(self, session, outbox):
        self._session = session
        self._outbox = outbox
        # The newest cell, or none yet.
        self.latest = None
        self.lock = threading.RLock()
        self._parts = []
        self._chars = 0
        self._cell = None
        self._name = None
        self._flush_is_due = False
        # Drains the file descriptors, whose text was written earlier.
        self.before_write = lambda: None
        self._next_look = 0
        self._is_fork = False
        os.register_at_fork(after_in_child=self._start_anew)

    def begin(self, header):
        self.flush()
        cell = cell_output.Cell(header)
        self.latest = cell
        cell_output.current.set(cell)
        return cell

    @property
    def cell(self):
        """The calling code's cell; code without a cell counts as the newest cell's."""
        return cell_output.current.get(self.latest)

    def write(self, name, text):
        self._put(name, text)
        if interrupts.postponed:
            interrupts.deliver()
        if self._outbox.waiting_bytes > _MAX_WAITING_BYTES:
            self.hold_back()

    @interrupts.sheltered
    def _put(self, name, text):
        with self.lock:
            self._look_at_descriptors()
            self.append(cell_output.current.get(self.latest), name, text)

    def hold_back(self):
        """Back-pressure: waits for a slow server."""
        self._outbox.wait_for_room(_MAX_WAITING_BYTES)

    def append(self, cell, name, text):
        """The caller holds the lock."""
        if cell is not self._cell or name != self._name:
            self._send_pending()
            self._cell = cell
            self._name = name
        self._parts.append(text)
        self._chars += len(text)
        if self._chars > _MAX_PENDING_CHARS or (self._is_fork and "\n" in text):
            self._send_pending()
        elif not self._flush_is_due:
            self._flush_is_due = True
            self._outbox.later(_FLUSH_SECONDS, self._flush_late)

    def _look_at_descriptors(self):
        """Not at each write: checking takes longer than a write, and a process needs longer than the pause to write."""
        now = time.monotonic()
        if not self._parts or now > self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self.before_write()

    @interrupts.sheltered
    def flush(self):
        """Returns whether there was text to send."""
        with self.lock:
            self.before_write()
            had_text = bool(self._parts)
            self._send_pending()
        return had_text

    def flush_and_wait(self):
        """Sends all text now: the code that follows may never let another thread run."""
        had_text = self.flush()
        if interrupts.postponed:
            interrupts.deliver()
        if had_text:
            self._outbox.wait_until_sent(_LONGEST_FLUSH_SECONDS)

    @interrupts.sheltered
    def flush_if_free(self):
        """For threads that must not block on the lock, such as the sending thread. False: try again."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            self.before_write()
            self._send_pending()
        finally:
            self.lock.release()
        return True

    def end(self, cell):
        """Sends the kept tail of a cell that exceeded its limit."""
        self.flush()
        for name, text in cell.take_rest(stderr="stderr"):
            self._emit(cell, name, text)

    def admit_bundle(self, data):
        """The bundle to send, replaced by a note if it is too large; None if the cell's limit is reached."""
        cell = self.cell
        chars = sum(map(_chars_of, data.values()))
        if chars > mime.MAX_BUNDLE_CHARS:
            data = {"text/plain": mime.too_large(chars)}
            chars = 0
        if cell is None or cell.admits(chars):
            return data
        cell.left_out_chars += chars
        return None

    def _flush_late(self):
        """In the sending thread."""
        self._flush_is_due = False
        if not self.flush_if_free():
            self._flush_is_due = True
            self._outbox.later(_FLUSH_SECONDS, self._flush_late)

    def _send_pending(self):
        if not self._parts:
            return
        text = "".join(self._parts)
        self._parts = []
        self._chars = 0
        cell = self._cell
        if cell is None:
            return
        admitted = cell.admit(len(text))
        self._emit(cell, self._name, text[:admitted])
        if admitted < len(text):
            cell.keep(self._name, text[admitted:])

    def _emit(self, cell, name, text):
        # A fork sends for itself; the session would refuse that because of the other pid.
        self._session.pid = os.getpid()
        for start in range(0, len(text), _PIECE_CHARS):
            content = {"name": name, "text": text[start : start + _PIECE_CHARS]}
            self._session.send(
                self._outbox.socket, "stream", content, parent=cell.source, ident=b"stream." + name.encode()
            )

    def _start_anew(self):
        """In a fork: the lock may be held by a thread that does not exist here, and pending text is the parent's."""
        self.lock = threading.RLock()
        self._parts = []
        self._chars = 0
        # A fork has no sending thread: it sends line by line.
        self._flush_is_due = True
        self._is_fork = True
        self.before_write = lambda: None


def _chars_of(form):
    return len(form) if isinstance(form, str) else len(json.dumps(form))
