"""The jail's side of the filtering proxy (proxy.ts): forwards a port on its loopback to a Unix socket.

    python forward.py SOCKET PORT -- command …

runs the command with a forwarder beside it. `start` does the same for the calling process. Where the loopback is the
host's, the gate hands over each connection instead (see gate.py), through a `bridge` to the forwarder of
`start_bridged`.
"""

import os
import selectors
import signal
import socket
import sys

_CHUNK_BYTES = 64 * 1024
# Each connection takes two descriptors, and the session's limits apply to this process, too.
_MAX_CONNECTIONS = 256


def bridge():
    """Two sockets: the gate's, to hand over connections, and the forwarder's."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def start(socket_path, port):
    """Starts a forwarder, an orphan that the jail's first process adopts; it listens when this returns."""
    _start(socket_path, _listener(port), _accept)


def start_bridged(socket_path, bridged):
    """The same with the forwarder's end of a `bridge`, which is closed here."""
    _start(socket_path, bridged, _take_over)


def _start(socket_path, source, take):
    middle = os.fork()
    if middle == 0:
        try:
            if os.fork() == 0:
                _become_forwarder(source, take, socket_path)
        finally:
            os._exit(0)
    os.waitpid(middle, 0)
    source.close()


def _listener(port):
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", port))
    listener.listen(64)
    return listener


def _become_forwarder(source, take, socket_path):
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    # The program's pipes must close when it ends, not when this process does.
    os.dup2(source.fileno(), 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2:
            try:
                os.close(int(name))
            except OSError:
                pass  # The descriptor of the listing itself.
    _serve(socket.socket(fileno=0), take, socket_path)


class _Side:
    """One end of a connection, and the data to be written to it."""

    other: "_Side"

    def __init__(self, connection):
        self.connection = connection
        self.waiting = b""
        self.has_ended = False


def _serve(source, take, socket_path):
    selector = selectors.DefaultSelector()
    source.setblocking(False)
    selector.register(source, selectors.EVENT_READ)
    count = 0
    while True:
        for key, events in selector.select():
            side = key.data
            if side is None:
                pair = _pair(take(source), socket_path if count < _MAX_CONNECTIONS else None)
                if pair:
                    count += 1
                    for one in pair:
                        selector.register(one.connection, selectors.EVENT_READ, one)
            elif side.connection.fileno() >= 0 and not _move(selector, side, events):
                count -= 1
                for one in (side, side.other):
                    _unregister(selector, one)
                    one.connection.close()


def _accept(listener):
    try:
        return listener.accept()[0]
    except OSError:
        return None


def _take_over(channel):
    try:
        data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    except OSError:
        return None
    if not data:
        os._exit(0)  # The jail's first process has ended.
    return socket.socket(fileno=descriptors[0]) if descriptors else None


def _pair(inner, socket_path):
    """Without a path, the connection is closed: there are too many."""
    if inner is None:
        return None
    outer = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        if socket_path is None:
            raise ConnectionRefusedError
        # By a descriptor of the folder: a socket path is limited to 107 bytes.
        folder = os.open(os.path.dirname(socket_path), os.O_PATH)
        try:
            outer.connect("/proc/self/fd/%d/%s" % (folder, os.path.basename(socket_path)))
        finally:
            os.close(folder)
    except OSError:
        inner.close()
        outer.close()
        return None
    pair = (_Side(inner), _Side(outer))
    pair[0].other, pair[1].other = pair[1], pair[0]
    for side in pair:
        side.connection.setblocking(False)
    return pair


def _move(selector, side, events):
    """False if the connection has ended. Data from one end must be written before more is read (back-pressure)."""
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
