"""Output of C code and child processes, written to descriptors 1 and 2 directly."""

import codecs
import fcntl
import os
import select
import threading

_READ_BYTES = 64 * 1024


class Descriptors:
    """
    Pipes behind descriptors 1 and 2. A thread reads them; a write to `sys.stdout` or `sys.stderr` drains them first, so
    that output stays in order.
    """

    def __init__(self, output):
        self._output = output
        self._readers = {}
        self._poll = select.poll()
        self._thread_poll = select.poll()

    def capture(self):
        for fd, name in ((1, "stdout"), (2, "stderr")):
            read_end, write_end = os.pipe()
            os.set_blocking(read_end, False)
            _enlarge(write_end)
            os.dup2(write_end, fd)
            os.close(write_end)
            self._readers[read_end] = (name, codecs.getincrementaldecoder("utf-8")("replace"))
            self._poll.register(read_end, select.POLLIN)
            self._thread_poll.register(read_end, select.POLLIN)
        self._output.before_write = self._drain
        threading.Thread(target=self._watch, name="descriptors", daemon=True).start()

    def _watch(self):
        while True:
            self._thread_poll.poll()
            with self._output.lock:
                self._drain()
            self._output.hold_back()

    def _drain(self):
        """The caller holds the output's lock."""
        for read_end, _event in self._poll.poll(0):
            name, decoder = self._readers[read_end]
            try:
                text = decoder.decode(os.read(read_end, _READ_BYTES))
            except BlockingIOError:
                continue
            # The pipe does not tell which cell's process wrote it.
            if text:
                self._output.append(self._output.latest, name, text)


def _enlarge(pipe):
    """Fewer context switches while a process writes a lot."""
    if hasattr(fcntl, "F_SETPIPE_SZ"):
        try:
            fcntl.fcntl(pipe, fcntl.F_SETPIPE_SZ, 1024 * 1024)
        except OSError:
            pass
