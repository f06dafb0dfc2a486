"""What cells show, on its way to the sending thread: in order, within limits, and known to be that cell's."""

import collections
import contextvars
import json
import os
import threading
import time

from _cellwright import interrupts, mime

# What one cell may show. The server keeps far less than this; beyond it, sending would only cost time.
MAX_CELL_CHARS = 64 * 1024 * 1024
# What is kept of the rest, for the end of the cell: the last lines of a flood are the ones that say why it ended.
TAIL_CHARS = 64 * 1024
# Characters of one message; a longer text is sent in several.
_PIECE_CHARS = 32 * 1024
# Text waits this long for more of it, unless there is this much.
_FLUSH_SECONDS = 0.05
_LONGEST_FLUSH_SECONDS = 1
_MAX_PENDING_CHARS = 16 * 1024
_LOOK_SECONDS = 0.0002
# A cell that shows more than can be sent waits for the server at this many bytes.
_MAX_WAITING_BYTES = 8 * 1024 * 1024


class Cell:
    """One run of a cell, as far as its output goes. Tasks and threads that it starts inherit it in their context."""

    def __init__(self, header):
        self.header = header
        self.sent_chars = 0
        self.left_out_chars = 0
        self.tail = collections.deque()
        self.tail_chars = 0

    def admit(self, chars):
        """Counts what is about to be sent, and returns how much of it may be."""
        admitted = min(chars, MAX_CELL_CHARS - self.sent_chars)
        self.sent_chars += admitted
        return admitted

    def admits(self, chars):
        """All of it or nothing, after which nothing more is."""
        return self.admit(chars) == chars

    def keep(self, name, text):
        self.left_out_chars += len(text)
        text = text[-TAIL_CHARS:]
        self.tail.append((name, text))
        self.tail_chars += len(text)
        while self.tail_chars - len(self.tail[0][1]) >= TAIL_CHARS:
            self.tail_chars -= len(self.tail.popleft()[1])


_current = contextvars.ContextVar("cellwright_cell")


class Output:
    """Both streams share one buffer, so that they come out in the order they were written."""

    def __init__(self, session, outbox):
        self._session = session
        self._outbox = outbox
        self._latest = None
        self._lock = threading.RLock()
        self._parts = []
        self._chars = 0
        self._cell = None
        self._name = None
        self._flush_is_due = False
        # Text written to the file descriptors earlier comes first.
        self.before_write = lambda: None
        self._next_look = 0
        self._is_fork = False
        os.register_at_fork(after_in_child=self._start_anew)

    def begin(self, header):
        self.flush()
        cell = Cell(header)
        self._latest = cell
        _current.set(cell)
        return cell

    @property
    def cell(self):
        """The cell whose code this is; what nobody started is the newest cell's."""
        return _current.get(self._latest)

    @property
    def latest(self):
        return self._latest

    def write(self, name, text):
        self._put(name, text)
        if interrupts.postponed:
            interrupts.deliver()
        if self._outbox.waiting_bytes > _MAX_WAITING_BYTES:
            self.hold_back()

    @interrupts.sheltered
    def _put(self, name, text):
        with self._lock:
            self._look_at_descriptors()
            self.append(_current.get(self._latest), name, text)

    def hold_back(self):
        """Waits while the server does not take what has been said."""
        self._outbox.wait_for_room(_MAX_WAITING_BYTES)

    @property
    def lock(self):
        return self._lock

    def append(self, cell, name, text):
        """With the lock."""
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
        """A look takes longer than a write; a process that wrote something took longer than the pause between looks."""
        now = time.monotonic()
        if not self._parts or now > self._next_look:
            self._next_look = now + _LOOK_SECONDS
            self.before_write()

    @interrupts.sheltered
    def flush(self):
        """Whether there was anything to be sent."""
        with self._lock:
            self.before_write()
            had_text = bool(self._parts)
            self._send_pending()
        return had_text

    def flush_and_wait(self):
        """What was written gets out, though code that follows may never let another thread run."""
        had_text = self.flush()
        if interrupts.postponed:
            interrupts.deliver()
        if had_text:
            self._outbox.wait_until_sent(_LONGEST_FLUSH_SECONDS)

    @interrupts.sheltered
    def flush_if_free(self):
        """For the sending thread and others that must not wait for one that waits for them. False: try again."""
        if not self._lock.acquire(blocking=False):
            return False
        try:
            self.before_write()
            self._send_pending()
        finally:
            self._lock.release()
        return True

    def end(self, cell):
        """Sends what was kept back of a cell that said too much."""
        self.flush()
        if not cell.left_out_chars:
            return
        left_out = cell.left_out_chars - cell.tail_chars
        cell.left_out_chars = cell.tail_chars = 0
        tail = list(cell.tail)
        cell.tail.clear()
        limit = MAX_CELL_CHARS // 2**20
        self._emit(
            cell,
            "stderr",
            f"\n<{left_out} characters left out here: a cell may show {limit} MB. "
            "Write long output to a file in the workspace.>\n",
        )
        for name, text in tail:
            self._emit(cell, name, text)

    def admit_bundle(self, data):
        """The forms of one thing as they may be sent; None when there is no room left for them."""
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
        # A process of the cell's sends on its own; the session would take it for a mistake.
        self._session.pid = os.getpid()
        for start in range(0, len(text), _PIECE_CHARS):
            content = {"name": name, "text": text[start : start + _PIECE_CHARS]}
            self._session.send(self._outbox.socket, "stream", content, parent=cell.header, ident=b"stream." + name.encode())

    def _start_anew(self):
        """In a fork: the lock may be held by a thread that is not there, and what is pending is the other's."""
        self._lock = threading.RLock()
        self._parts = []
        self._chars = 0
        # Nobody would do it: a fork has one thread. It sends line by line.
        self._flush_is_due = True
        self._is_fork = True
        self.before_write = lambda: None


def _chars_of(form):
    return len(form) if isinstance(form, str) else len(json.dumps(form))
