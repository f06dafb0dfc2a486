"""The jail's end of the way to the filtering proxy (proxy.ts): its loopback has a port that leads to a unix socket.

    python forward.py SOCKET PORT -- command …

runs the command beside a forwarder. After a fork, `start(socket_path, port)` does the same for the calling process.
"""

import os
import selectors
import signal
import socket
import sys

_CHUNK_BYTES = 64 * 1024
# A connection costs two descriptors of a process that its session's limits hold for, too.
_MAX_CONNECTIONS = 256


def start(socket_path, port):
    """Leaves a forwarder behind that is nobody's child but the jail's first process's. Listening when it returns."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    middle = os.fork()
    if middle == 0:
        try:
            if os.fork() == 0:
                _become_forwarder(listener, socket_path)
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    listener.close()


def _become_forwarder(listener, socket_path):
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The program's own pipes must end with it, not with us.
    os.dup2(listener.fileno(), 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # It was the listing's own.
    _serve(socket.socket(fileno=0), socket_path)


class _Side:
    """One end of a connection, and what waits to be written to it."""

    def __init__(self, connection):
        self.connection = connection
        self.waiting = b""
        self.other = None
        self.has_ended = False


def _serve(listener, socket_path):
    selector = selectors.DefaultSelector()
    listener.setblocking(False)
    selector.register(listener, selectors.EVENT_READ)
    count = 0
    while True:
        for key, events in selector.select():
            side = key.data
            if side is None:
                pair = _accept(listener, socket_path) if count < _MAX_CONNECTIONS else _refuse(listener)
                if pair:
                    count += 1
                    for one in pair:
                        selector.register(one.connection, selectors.EVENT_READ, one)
            elif side.connection.fileno() >= 0 and not _move(selector, side, events):
                count -= 1
                for one in (side, side.other):
                    _unregister(selector, one)
                    one.connection.close()


def _accept(listener, socket_path):
    try:
        inner = listener.accept()[0]
    except OSError:
        return None
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        outer.connect(socket_path)
    except OSError:
        inner.close()
        outer.close()
        return None
    pair = (_Side(inner), _Side(outer))
    pair[0].other, pair[1].other = pair[1], pair[0]
    for side in pair:
        side.connection.setblocking(False)
    return pair


def _refuse(listener):
    try:
        listener.accept()[0].close()
    except OSError:
        pass


def _move(selector, side, events):
    """Whether the connection goes on. What one end sent must be written before more of it is read."""
    try:
        if events & selectors.EVENT_WRITE:
            side.waiting = side.waiting[side.connection.send(side.waiting) :]
        if events & selectors.EVENT_READ:
            data = side.connection.recv(_CHUNK_BYTES)
            side.has_ended = not data
            side.other.waiting += data
    except BlockingIOError:
        pass
    except OSError:
        return False
    for one in (side, side.other):
        if one.other.has_ended and not one.waiting:
            try:
                one.connection.shutdown(socket.SHUT_WR)
            except OSError:
                return False
    if side.has_ended and side.other.has_ended and not side.waiting and not side.other.waiting:
        return False
    for one in (side, side.other):
        _listen(selector, one)
    return True


def _listen(selector, side):
    wanted = 0
    if side.waiting:
        wanted |= selectors.EVENT_WRITE
    if not side.has_ended and not side.other.waiting:
        wanted |= selectors.EVENT_READ
    _unregister(selector, side)
    if wanted:
        selector.register(side.connection, wanted, side)


def _unregister(selector, side):
    try:
        selector.unregister(side.connection)
    except (KeyError, ValueError):
        pass


if __name__ == "__main__":
    start(sys.argv[1], int(sys.argv[2]))
    os.execvp(sys.argv[4], sys.argv[4:])
