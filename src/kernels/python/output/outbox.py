"""Wraps ipykernel's IOPub thread: counts the waiting bytes and copies messages to the journal."""

import os
import threading
from time import monotonic, sleep

from _cellwright import interrupts

# Messages that ZeroMQ buffers for a slow server. Then the sending thread blocks, and nothing is dropped.
HIGH_WATER_MARK = 256

# Polling instead of a condition: a waiting thread may be interrupted, and must not hold a lock then.
_NAP_SECONDS = 0.0002
_LONGEST_NAP_SECONDS = 0.01


class Outbox:
    def __init__(self, thread, socket, journal):
        self.socket = socket
        self.waiting_bytes = 0
        self._thread = thread
        self._journal = journal
        self._lock = threading.Lock()
        self._pid = os.getpid()
        self._send = thread._really_send
        self._schedule_send = thread.send_multipart
        thread._really_send = self._really_send
        thread.send_multipart = self._send_multipart

    def begin_cell(self):
        """The next message belongs to a new cell."""
        self._thread.schedule(self._journal.begin_cell)

    def later(self, seconds, act):
        """Runs `act` in the sending thread."""
        self._thread.schedule(lambda: self._thread.io_loop.call_later(seconds, act))

    def wait_for_room(self, limit):
        self._wait(limit, float("inf"))

    def wait_until_sent(self, seconds):
        self._wait(0, seconds)

    def _wait(self, limit, seconds):
        if not self._can_wait():
            return
        end = monotonic() + seconds
        nap = _NAP_SECONDS
        while self.waiting_bytes > limit and monotonic() < end:
            sleep(nap)
            nap = min(nap * 2, _LONGEST_NAP_SECONDS)

    def _can_wait(self):
        """The sending thread cannot wait for itself, and a fork has no sending thread."""
        return threading.current_thread() is not self._thread.thread and self._pid == os.getpid()

    @interrupts.sheltered
    def _send_multipart(self, frames, *args, **options):
        with self._lock:
            self.waiting_bytes += _bytes_of(frames)
        self._schedule_send(frames, *args, **options)

    def _really_send(self, frames, *args, **options):
        if self._pid != os.getpid():
            return self._send(frames, *args, **options)
        try:
            self._journal.write(frames)
            return self._send(frames, *args, **options)
        finally:
            with self._lock:
                self.waiting_bytes -= _bytes_of(frames)


def _bytes_of(frames):
    return sum(map(len, frames))
