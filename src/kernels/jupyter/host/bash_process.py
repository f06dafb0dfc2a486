"""A shell of its own beside the kernel, driven by one thread: cells go in as files, what they write comes out of pipes."""

import codecs
import collections
import os
import secrets
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from _cellwright import bash_lines

_READ_BYTES = 64 * 1024
# How often an interrupted cell's end is asked for again, and with every second time comes another signal.
_ASK_AGAIN_SECONDS = 0.25
_MAX_ASKS = 40
# Cells whose background jobs can still be heard.
_MAX_LATE = 64
# A background job is read this much slower than it may like: servers pass on a megabyte a second.
_LATE_PAUSE_SECONDS = 0.1
_MARK = "CELLWRIGHT_SHELL"


class Run:
    """One cell on its way through the shell."""

    def __init__(self, number, cell, done):
        self.number = number
        self.token = secrets.token_hex(16)
        self.cell = cell
        self.done = done
        self.begun = False
        self.interrupt_wanted = False
        self.interrupt_sent = False
        self.status = None
        self.is_over = False
        self.next_ask = None
        self.asks = 0
        self.readers = {}
        self.writers = []


class BashProcess:
    """`on_exit(code)` is called in its thread, after all that the shell has written was taken."""

    def __init__(self, output, on_exit):
        self.version = None
        self._output = output
        self._on_exit = on_exit
        self._folder = tempfile.mkdtemp(prefix="cellwright-shell-")
        self._mark = secrets.token_hex(16)
        self._tasks = collections.deque()
        self._wake_end, self._wake = os.pipe()
        os.set_blocking(self._wake_end, False)
        self._reports, report_fd = os.pipe()
        os.set_blocking(self._reports, False)
        self._rest = b""
        self._run = None
        self._late = collections.OrderedDict()
        self._paused = {}
        self._cells = 0
        self._last_status = 0
        self._poll = select.poll()
        self._poll.register(self._wake_end, select.POLLIN)
        self._poll.register(self._reports, select.POLLIN)
        self._ready = threading.Event()
        self._has_ended = False
        self._process = subprocess.Popen(
            bash_lines.COMMAND,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            pass_fds=(report_fd,),
            env=self._environment(),
            start_new_session=True,
        )
        os.close(report_fd)
        self._tell(bash_lines.setup(report_fd))
        threading.Thread(target=self._work, name="shell", daemon=True).start()
        threading.Thread(target=self._wait, name="shell-exit", daemon=True).start()
        if not self._ready.wait(30) or self.version is None:
            self.end()
            raise RuntimeError("the shell does not answer")

    def run(self, code, variables, cell, done):
        """`done(status)` is called in the shell's thread: None when the shell has ended."""
        self._cells += 1
        run = Run(self._cells, cell, done)
        self._do(lambda: self._begin(run, code, variables))
        return run

    def interrupt(self, run):
        self._do(lambda: self._interrupt(run))

    def end(self):
        """Ends the shell and all that it started; may be called in any thread."""
        self._signal(signal.SIGKILL)
        _end_marked(b"%s=%s" % (_MARK.encode(), self._mark.encode()))
        shutil.rmtree(self._folder, ignore_errors=True)

    def remember(self, status):
        """What `$?` is for the next cell."""
        self._last_status = status

    def _environment(self):
        programs = os.path.dirname(sys.executable)
        path = os.pathsep.join([programs, os.environ.get("PATH", os.defpath)])
        return {**os.environ, "PATH": path, "TERM": "dumb", _MARK: self._mark}

    def _do(self, task):
        self._tasks.append(task)
        os.write(self._wake, b"x")

    def _work(self):
        while True:
            events = self._poll.poll(self._patience())
            for fd, _event in events:
                if fd == self._wake_end:
                    self._take_tasks()
                elif fd == self._reports:
                    self._take_reports()
                else:
                    self._take_text(fd)
            self._keep_time()

    def _patience(self):
        """Milliseconds until something is due; None: nothing is."""
        times = list(self._paused.values())
        if self._run is not None and self._run.next_ask is not None:
            times.append(self._run.next_ask)
        return None if not times else max(0, (min(times) - time.monotonic()) * 1000) + 1

    def _keep_time(self):
        now = time.monotonic()
        for fd in [fd for fd, due in self._paused.items() if due <= now]:
            del self._paused[fd]
            self._poll.register(fd, select.POLLIN)
        run = self._run
        if run is not None and run.next_ask is not None and run.next_ask <= now:
            self._ask_again(run, now)

    def _take_tasks(self):
        try:
            os.read(self._wake_end, _READ_BYTES)
        except BlockingIOError:
            pass
        while self._tasks:
            self._tasks.popleft()()

    # Cells.

    def _begin(self, run, code, variables):
        if self._has_ended:
            run.done(None)
            return
        files = {"cell": os.path.join(self._folder, "cell")}
        _write(files["cell"], code)
        if variables:
            files["variables"] = os.path.join(self._folder, "variables")
            _write(files["variables"], bash_lines.assignments(variables))
        for name in ("stdout", "stderr"):
            files[name] = os.path.join(self._folder, "%s-%d" % (name, run.number))
            os.mkfifo(files[name], 0o600)
            reader = os.open(files[name], os.O_RDONLY | os.O_NONBLOCK)
            # While we hold it too, it does not end between two programs that write.
            run.writers.append(os.open(files[name], os.O_WRONLY))
            run.readers[reader] = (name, codecs.getincrementaldecoder("utf-8")("replace"))
            self._late[reader] = run
            self._poll.register(reader, select.POLLIN)
        run.files = files
        self._run = run
        self._tell(bash_lines.cell(files, run.number, run.token, self._last_status))

    def _interrupt(self, run):
        if run.is_over or run.interrupt_wanted:
            return
        run.interrupt_wanted = True
        if run.begun:
            self._send_interrupt(run)

    def _send_interrupt(self, run):
        if run.interrupt_sent:
            return
        run.interrupt_sent = True
        self._signal(signal.SIGINT)
        run.asks = 0
        run.next_ask = time.monotonic() + _ASK_AGAIN_SECONDS

    def _ask_again(self, run, now):
        """The signal may have hit our own line."""
        run.asks += 1
        if run.asks % 2 == 0 and run.status is None:
            self._signal(signal.SIGINT)
        self._tell(bash_lines.end(run.token))
        run.next_ask = now + _ASK_AGAIN_SECONDS if run.asks < _MAX_ASKS else None

    def _settle(self, run):
        """A signal may have come after the cell's end. Once the shell answers again, it has none before it."""
        run.interrupt_sent = False
        run.token = secrets.token_hex(16)
        self._tell(bash_lines.end(run.token))

    def _finish(self, run, status):
        run.is_over = True
        self._run = None
        self._drain(run)
        for fd in run.writers:
            os.close(fd)
        for name in ("stdout", "stderr"):
            os.unlink(run.files[name])
        run.done(status)
        # By pairs: those of one cell.
        while len(self._late) > 2 * _MAX_LATE:
            self._close(next(iter(self._late)))

    # What the shell says.

    def _take_reports(self):
        data = _read(self._reports)
        if data == b"":
            self._poll.unregister(self._reports)
        pieces = (self._rest + (data or b"")).split(b"\0")
        self._rest = pieces.pop()[-1000:]
        for piece in pieces:
            self._hear(piece.decode("latin-1").split(" "))

    def _hear(self, words):
        run = self._run
        if words[0] == "ready" and self.version is None:
            self.version = words[-1][:40]
            self._ready.set()
        elif words[0] == "begin" and run is not None and words[1:] == [str(run.number)]:
            run.begun = True
            if run.interrupt_wanted:
                self._send_interrupt(run)
        elif words[0] == "end" and run is not None and len(words) == 3 and words[1] == run.token and words[2].isdigit():
            if run.status is None:
                run.status = int(words[2])
            if run.interrupt_sent:
                self._settle(run)
            else:
                self._finish(run, run.status)

    def _take_text(self, fd):
        run = self._late.get(fd)
        if run is None:
            return
        data = _read(fd)
        if data == b"":
            # The last of those who could write has gone.
            self._show(run, fd, b"", True)
            self._close(fd)
        elif data:
            self._show(run, fd, data, False)
            if run.is_over:
                self._poll.unregister(fd)
                self._paused[fd] = time.monotonic() + _LATE_PAUSE_SECONDS
            self._output.hold_back()

    def _drain(self, run):
        """What was written until now. Half a character is half a character."""
        for fd in run.readers:
            while True:
                data = _read(fd) if fd in self._late else None
                if not data:
                    break
                self._show(run, fd, data, False)
                self._output.hold_back()
            self._show(run, fd, b"", True)

    def _show(self, run, fd, data, is_end):
        name, decoder = run.readers[fd]
        text = decoder.decode(data, is_end)
        if is_end:
            decoder.reset()
        if text:
            with self._output.lock:
                self._output.append(run.cell, name, text)

    def _close(self, fd):
        if self._paused.pop(fd, None) is None:
            self._poll.unregister(fd)
        self._late.pop(fd, None)
        os.close(fd)

    # The process.

    def _tell(self, lines):
        try:
            self._process.stdin.write(lines.encode())
            self._process.stdin.flush()
        except OSError:
            # It has just ended, which is told in another way.
            pass

    def _signal(self, number):
        try:
            os.killpg(self._process.pid, number)
        except OSError:
            pass

    def _wait(self):
        code = self._process.wait()
        self._do(lambda: self._exited(code))

    def _exited(self, code):
        self._has_ended = True
        self._ready.set()
        run = self._run
        if run is not None:
            run.is_over = True
            self._run = None
            self._drain(run)
        self.end()
        self._on_exit(code)
        if run is not None:
            run.done(None)


def _write(path, text):
    with open(path, "w", encoding="utf-8", errors="surrogateescape", newline="") as file:
        file.write(text)


def _read(fd):
    try:
        return os.read(fd, _READ_BYTES)
    except BlockingIOError:
        return None


def _end_marked(entry):
    """Processes that left the shell's group, by the mark in their environment; those found may have started others."""
    for _round in range(5):
        found = [pid for pid in _processes() if _has(pid, entry)]
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except OSError:
                pass


def _processes():
    try:
        return [int(name) for name in os.listdir("/proc") if name.isdigit()]
    except OSError:
        return []


def _has(pid, entry):
    try:
        with open("/proc/%d/environ" % pid, "rb") as file:
            return entry in file.read().split(b"\0")
    except OSError:
        return False
