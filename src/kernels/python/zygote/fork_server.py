"""
The main loop of a zygote: forks and reaps kernels, and reports their exits.

Servers connect to a Unix socket and send JSON lines `{"id", "op": "fork" | "watch" | "leave", …}`. Answers have the
same id, and all servers get `{"exit": pid, "start", "status"}` when a kernel ends. Kernels inherit this process's
memory, so it must not contain anything of a session: a fork request has only the random name of a folder, and only the
new process reads the files in it.
"""

import collections
import json
import os
import re
import selectors
import shutil
import signal
import socket
import time
from collections.abc import Callable
from typing import Optional

from . import preload

MAX_LINE_BYTES = 65536
# Exits that a new server can still ask for.
MAX_EXITS_KEPT = 1000
# Maximum interval of heartbeat checks; shorter if a kernel has a short TTL.
CHECK_SECONDS = 30


class Forked(Exception):
    """Raised in a new process, to unwind the inherited stack."""

    def __init__(self, *descriptors):
        super().__init__()
        self.descriptors = descriptors


class Child:
    def __init__(self, pid, heartbeat_fd, ttl_seconds):
        self.pid = pid
        self.start = start_of(pid)
        self.heartbeat_fd = heartbeat_fd
        self.ttl_seconds = ttl_seconds
        self.heartbeat = None
        self.heard_at = 0
        # Reads the report about its start; None after it was read.
        self.hear: Optional[Callable[[], None]] = None

    def is_forgotten(self):
        """
        Whether no server touched its heartbeat for too long. Uses a clock that stops while the machine is suspended,
        when no server could have touched it.
        """
        heartbeat = os.fstat(self.heartbeat_fd).st_mtime_ns
        if heartbeat != self.heartbeat:
            self.heartbeat = heartbeat
            self.heard_at = time.monotonic()
        return time.monotonic() - self.heard_at > self.ttl_seconds


class ForkServer:
    def __init__(self, socket_path, requests_folder, idle_seconds, hello):
        self.socket_path = socket_path
        self.requests_folder = requests_folder
        self.idle_seconds = idle_seconds
        self.hello = hello
        self.children = {}
        self.exits = collections.OrderedDict()
        # Connections, each with its incomplete line.
        self.servers = {}
        # The last server shut down in an orderly way: none will reconnect.
        self.is_dismissed = False
        self.needed_at = time.monotonic()
        self.served_at = time.monotonic()
        self.selector = selectors.DefaultSelector()

    def listen(self):
        # Leftovers of a killed zygote.
        self.remove_files()
        listener = socket.socket(socket.AF_UNIX)
        umask = os.umask(0o177)
        listener.bind(self.socket_path)
        os.umask(umask)
        listener.listen(64)
        self.selector.register(listener, selectors.EVENT_READ, self.accept)
        # Makes `select` return on a signal, without a race.
        wake, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self.selector.register(wake, selectors.EVENT_READ, self.reap)

    def serve(self):
        """Returns when the zygote is no longer needed. Raises `Forked` in each new process."""
        check_at = time.monotonic()
        while self.is_needed():
            pause = min(
                [CHECK_SECONDS, self.idle_seconds] + [child.ttl_seconds / 4 for child in self.children.values()]
            )
            for key, _ in self.selector.select(pause):
                key.data(key.fileobj)
            if time.monotonic() >= check_at:
                check_at = time.monotonic() + pause
                self.end_forgotten()
        self.remove_files()

    def remove_files(self):
        shutil.rmtree(self.requests_folder, ignore_errors=True)
        if os.path.lexists(self.socket_path):
            os.unlink(self.socket_path)

    def end_forgotten(self):
        """Also ends kernels after a time without any server: a kernel could touch its own heartbeat."""
        if self.servers:
            self.served_at = time.monotonic()
        alone_seconds = time.monotonic() - self.served_at
        for child in self.children.values():
            if child.is_forgotten() or alone_seconds > child.ttl_seconds:
                kill_group(child.pid)

    def is_needed(self):
        if self.servers or self.children:
            self.needed_at = time.monotonic()
        elif self.is_dismissed:
            return False
        return time.monotonic() - self.needed_at < self.idle_seconds

    def accept(self, listener):
        connection, _ = listener.accept()
        # A server that does not read is dropped when its buffer is full: waiting for it would block all others.
        connection.setblocking(False)
        self.is_dismissed = False
        self.servers[connection] = b""
        self.selector.register(connection, selectors.EVENT_READ, self.receive)
        self.send(connection, {"hello": self.hello})

    def drop(self, connection):
        if connection in self.servers:
            self.selector.unregister(connection)
            del self.servers[connection]
            connection.close()

    def send(self, connection, message):
        if connection not in self.servers:
            return
        try:
            connection.sendall(json.dumps(message).encode() + b"\n")
        except OSError:
            self.drop(connection)

    def receive(self, connection):
        try:
            data = connection.recv(MAX_LINE_BYTES)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        *lines, rest = (self.servers[connection] + data).split(b"\n")
        if not data or len(rest) > MAX_LINE_BYTES:
            self.drop(connection)
            return
        self.servers[connection] = rest
        operations = {"fork": self.fork, "watch": self.watch, "leave": self.leave}
        for line in lines:
            try:
                message = json.loads(line)
                operations[message["op"]](connection, message)
            except (ValueError, KeyError, TypeError):
                self.drop(connection)
                return

    def watch(self, connection, message):
        """Reports whether a kernel is alive, or its exit status; neither if it is unknown."""
        child = self.children.get(message["pid"])
        alive = child is not None and child.start == message["start"]
        status = self.exits.get((message["pid"], message["start"]))
        self.send(connection, {"id": message["id"], "alive": alive, "status": status})

    def leave(self, connection, message):
        """An orderly shutdown of a server. After the last one, the zygote ends once all kernels have ended."""
        self.drop(connection)
        self.is_dismissed = not self.servers

    def fork(self, connection, message):
        def answer(**fields):
            self.send(connection, dict(fields, id=message["id"]))

        threads = preload.thread_names()
        if len(threads) > 1:
            return answer(error="the process to be forked has several threads: " + ", ".join(threads))
        if not re.match("^[0-9a-f]{32}$", message["folder"]):
            return answer(error="not the folder of a fork request")
        folder = os.path.join(self.requests_folder, message["folder"])
        descriptors = []
        try:
            for name in ("request.json", "heartbeat"):
                descriptors.append(os.open(os.path.join(folder, name), os.O_RDONLY))
            descriptors += os.pipe()
            pid = os.fork()
        except OSError as error:
            for descriptor in descriptors:
                os.close(descriptor)
            return answer(error=str(error))
        request_fd, heartbeat_fd, read, write = descriptors
        if pid == 0:
            raise Forked(request_fd, heartbeat_fd, write)
        os.close(request_fd)
        os.close(write)
        os.set_blocking(read, False)
        child = self.children[pid] = Child(pid, heartbeat_fd, message["ttlSeconds"])

        def hear(read):
            try:
                said = os.read(read, 4096).decode(errors="replace")
            except BlockingIOError:
                said = ""
            self.selector.unregister(read)
            os.close(read)
            child.hear = None
            if connection not in self.servers:
                # Its server has disconnected and will never know about it.
                kill_group(pid)
            elif said == "ok":
                answer(pid=pid, start=child.start)
            else:
                answer(error=said or "the new process ended before it was a kernel")

        # The new process reports `ok` once it is in its jail, or what went wrong.
        self.selector.register(read, selectors.EVENT_READ, hear)
        child.hear = lambda: hear(read)

    def reap(self, wake):
        os.read(wake, 4096)
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            child = self.children.pop(pid, None)
            if child is None:
                # An orphan of a killed supervisor: only reaped.
                continue
            if child.hear:
                # Report the start before the exit.
                child.hear()
            os.close(child.heartbeat_fd)
            self.exits[pid, child.start] = status
            if len(self.exits) > MAX_EXITS_KEPT:
                self.exits.popitem(last=False)
            for connection in list(self.servers):
                self.send(connection, {"exit": pid, "start": child.start, "status": status})


def start_of(pid):
    """The 22nd field of /proc/PID/stat, counted from after the name, as in src/process/process-life.ts."""
    with open("/proc/%d/stat" % pid) as file:
        return file.read().rpartition(")")[2].split()[19]


def kill_group(pid):
    """A kernel leads a process group; in a jail, its supervisor does, and killing that kills the whole jail."""
    for target in (-pid, pid):
        try:
            os.kill(target, signal.SIGKILL)
        except ProcessLookupError:
            pass
