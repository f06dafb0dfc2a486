"""
A shell, driven in the kernel's event loop: cells go in as files, output comes from pipes. The lines sent to the shell
are explained in src/kernels/shell/driver.ts; kernels/bash/kernel.ts is the counterpart for local shells.
"""

import codecs
import collections
import contextlib
import glob
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading

_READ_BYTES = 64 * 1024
_START_SECONDS = 30
# Interval at which the end of an interrupted cell is requested again. Every second request sends another signal.
_ASK_AGAIN_SECONDS = 0.25
_MAX_ASKS = 40
# Cells whose late output is still read.
_MAX_LATE_CELLS = 64
# Rate limit for output of background jobs: Jupyter servers forward a megabyte per second.
_LATE_PAUSE_SECONDS = 0.1
_MARK = "CELLWRIGHT_SHELL"


class Run:
    """One cell that the shell runs."""

    def __init__(self, number, cell, ended):
        self.number = str(number)
        self.token = secrets.token_hex(16)
        self.cell = cell
        # A future of its exit code, or None if the shell has ended.
        self.ended = ended
        self.begun = False
        self.interrupt_wanted = False
        self.interrupt_sent = False
        self.status = None
        self.asking = None
        self.streams = []


class BashProcess:
    """`on_exit(code)` is called after all of the shell's output was read."""

    def __init__(self, script, loop, output, on_exit):
        self.last_status = 0
        self._script = script
        self._loop = loop
        self._output = output
        self._on_exit = on_exit
        self._folder = tempfile.mkdtemp(prefix="cellwright-shell-")
        self._mark = secrets.token_hex(16)
        self._run = None
        self._cells = 0
        self._late = collections.deque()
        self._has_ended = False
        reports = self._pipe("reports")
        # Opened for both, so that the pipe never reports its end.
        self._reports = os.open(reports, os.O_RDWR | os.O_NONBLOCK)
        self._rest = b""
        self._process = subprocess.Popen(
            script["command"],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=self._environment(),
            start_new_session=True,
        )
        self._say("setup", reports=reports)
        self.version = self._wait_until_ready()
        os.unlink(reports)
        loop.add_reader(self._reports, self._take_reports)
        threading.Thread(target=self._wait, name="shell-exit", daemon=True).start()

    def run(self, code, assignments, cell):
        self._cells += 1
        run = Run(self._cells, cell, self._loop.create_future())
        if self._has_ended:
            run.ended.set_result(None)
            return run
        self._run = run
        files = {"cell": self._write("cell", code), "variables": self._write("variables", assignments)}
        for name in ("stdout", "stderr"):
            files[name] = self._pipe("%s-%s" % (name, run.number))
            run.streams.append(_Stream(name, files[name], run.cell, self._output, self._loop))
        kind = "cellAfterFailure" if self.last_status else "cellAfterSuccess"
        self._say(kind, **files, number=run.number, token=run.token, status=str(self.last_status))
        return run

    def interrupt(self, run):
        if run.ended.done() or run.interrupt_wanted:
            return
        run.interrupt_wanted = True
        if run.begun:
            self._send_interrupt(run)

    def end(self):
        """Kills the shell and all processes it started. May be called in any thread."""
        self._signal(signal.SIGKILL)
        _end_marked(b"%s=%s" % (_MARK.encode(), self._mark.encode()))
        shutil.rmtree(self._folder, ignore_errors=True)

    def _environment(self):
        programs = os.path.dirname(sys.executable)
        path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
        return {**os.environ, "PATH": path, "TERM": "dumb", _MARK: self._mark}

    def _pipe(self, name):
        path = os.path.join(self._folder, name)
        os.mkfifo(path, 0o600)
        return path

    def _write(self, name, text):
        path = os.path.join(self._folder, name)
        with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
            file.write(text)
        return path

    def _wait_until_ready(self):
        """Blocks the event loop, which is running the cell that starts the shell."""
        waiting, _, _ = select.select([self._reports], [], [], _START_SECONDS)
        words = os.read(self._reports, _READ_BYTES).decode("latin-1").rstrip("\0").split(" ") if waiting else [""]
        if words[0] != "ready":
            self.end()
            raise RuntimeError("the shell does not answer")
        return words[-1][:40]

    # Interrupts.

    def _send_interrupt(self, run):
        if run.interrupt_sent:
            return
        run.interrupt_sent = True
        self._signal(signal.SIGINT)
        run.asking = self._loop.call_later(_ASK_AGAIN_SECONDS, self._ask_again, run, 1)

    def _ask_again(self, run, asks):
        """The signal may have hit our own line."""
        if asks % 2 == 0 and run.status is None:
            self._signal(signal.SIGINT)
        self._say("end", token=run.token)
        if asks < _MAX_ASKS:
            run.asking = self._loop.call_later(_ASK_AGAIN_SECONDS, self._ask_again, run, asks + 1)

    def _settle(self, run):
        """A signal may arrive after the cell's end. Once the shell answers again, no signal is pending."""
        run.interrupt_sent = False
        run.token = secrets.token_hex(16)
        self._say("end", token=run.token)

    # Reports of the shell.

    def _take_reports(self):
        pieces = (self._rest + (_read(self._reports) or b"")).split(b"\0")
        self._rest = pieces.pop()[-1000:]
        for piece in pieces:
            if self._run is not None:
                self._hear(self._run, piece.decode("latin-1").split(" "))

    def _hear(self, run, words):
        if words == ["begin", run.number]:
            run.begun = True
            if run.interrupt_wanted:
                self._send_interrupt(run)
        elif len(words) == 3 and words[:2] == ["end", run.token] and words[2].isdigit():
            if run.status is None:
                run.status = int(words[2])
            if run.interrupt_sent:
                self._settle(run)
            else:
                self._finish(run, run.status)

    def _finish(self, run, status):
        self._run = None
        if run.asking is not None:
            run.asking.cancel()
        for stream in run.streams:
            stream.cell_ended()
        self._late.append(run)
        if len(self._late) > _MAX_LATE_CELLS:
            for stream in self._late.popleft().streams:
                stream.close()
        run.ended.set_result(status)

    # The process.

    def _say(self, kind, **names):
        text = self._script[kind]
        for name, value in names.items():
            text = text.replace("{%s}" % name, value.replace("'", "'\\''"))
        stdin = self._process.stdin
        assert stdin is not None
        # Ignored: a write fails if the shell has just ended, which `_wait` reports.
        with contextlib.suppress(OSError):
            stdin.write(text.encode())
            stdin.flush()

    def _signal(self, number):
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, number)

    def _wait(self):
        code = self._process.wait()
        self._loop.call_soon_threadsafe(self._exited, code)

    def _exited(self, code):
        self._has_ended = True
        run = self._run
        for stream in run.streams if run else []:
            stream.cell_ended()
        self.end()
        self._on_exit(code)
        if run is not None:
            run.ended.set_result(None)


class _Stream:
    """The reading end of a pipe that one cell and its background jobs write to."""

    def __init__(self, name, path, cell, output, loop):
        self._name = name
        self._path = path
        self._cell = cell
        self._output = output
        self._loop = loop
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
        # Our own writer, so that the pipe does not end between two programs.
        self._writer = os.open(path, os.O_WRONLY)
        self._is_late = False
        self._resuming = None
        loop.add_reader(self._fd, self._take)

    def cell_ended(self):
        """Reads everything that was written so far. An incomplete character at the end is not waited for."""
        while True:
            data = _read(self._fd)
            if not data:
                break
            self._show(data)
        self._show(b"", is_end=True)
        os.close(self._writer)
        self._is_late = True
        os.unlink(self._path)

    def close(self):
        if self._fd is None:
            return
        if self._resuming is not None:
            self._resuming.cancel()
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
        self._fd = None

    def _take(self):
        data = _read(self._fd)
        if data == b"":
            # The last writer has closed the pipe.
            self._show(b"", is_end=True)
            self.close()
        elif data:
            if self._is_late:
                self._loop.remove_reader(self._fd)
                self._resuming = self._loop.call_later(_LATE_PAUSE_SECONDS, self._resume)
            self._show(data)

    def _resume(self):
        self._resuming = None
        self._loop.add_reader(self._fd, self._take)

    def _show(self, data, is_end=False):
        text = self._decoder.decode(data, is_end)
        if is_end:
            self._decoder.reset()
        if text:
            with self._output.lock:
                self._output.append(self._cell, self._name, text)
            self._output.hold_back()


def _read(fd):
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None


def _end_marked(entry):
    """Kills processes that left the shell's group, found by the mark in their environment, and then their children."""
    for _round in range(5):
        found = False
        for path in glob.glob("/proc/[0-9]*/environ"):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                if entry in file.read().split(b"\0"):
                    found = True
                    os.kill(int(path.split("/")[2]), signal.SIGKILL)
        if not found:
            return
