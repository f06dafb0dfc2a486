"""
`connect` and, with the host's network, TCP sockets and `listen`. The gate connects its own socket and replaces the
caller's with it.
"""

import errno
import os
import select
import socket
import stat
import struct

from .request import Refused, about, closing, real_path, signed
from .signals import is_below

_MAX_ADDRESS_BYTES = 128
# On the jail's own loopback, a connection succeeds or fails immediately.
_CONNECT_SECONDS = 5


def calls(rules, bridge):
    connections = _Connections(rules, bridge)
    return {"connect": connections.connect, "socket": connections.socket, "listen": _listen}


class _Connections:
    def __init__(self, rules, bridge):
        self._own_folders = rules["ownFolders"]
        self._has_own_network = rules["ownNetwork"]
        self._bridge_port = rules["bridgePort"]
        self._bridge = bridge

    def socket(self, request):
        """TCP with the host's network: bound to loopback from the start, so that no other machine can reach it."""
        family, kind = (each & 0xFFFFFFFF for each in request.arguments[:2])
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
            made.setblocking(not kind & socket.SOCK_NONBLOCK)
            return request.give(made.fileno(), kind & socket.SOCK_CLOEXEC)

    def connect(self, request):
        descriptor, address, length = request.arguments[:3]
        descriptor, length = descriptor & 0xFFFFFFFF, length & 0xFFFFFFFF
        if length < 2 or length > _MAX_ADDRESS_BYTES:
            raise Refused(errno.EINVAL)
        raw = request.read(address, length)
        (family,) = struct.unpack_from("=H", raw)
        if family == socket.AF_UNIX:
            connected = self._connect_unix(request, raw[2:].partition(b"\0")[0])
        elif family in (socket.AF_INET, socket.AF_INET6):
            connected = self._connect_tcp(family, raw)
        else:
            raise Refused(errno.EAFNOSUPPORT)
        with connected:
            flags = request.flags_of(descriptor)
            connected.setblocking(not flags & os.O_NONBLOCK)
            request.replace(descriptor, connected.fileno(), flags & os.O_CLOEXEC)

    def _connect_unix(self, request, path):
        """Only to sockets of the session's own code, in folders that only the session uses."""
        if not path:
            raise Refused(errno.EACCES)
        place = request.as_seen(path, b"/proc/%d/cwd" % request.pid)
        with closing(os.open(place, os.O_PATH | os.O_CLOEXEC)) as found:
            is_own = any(_is_in(found, folder) for folder in self._own_folders)
            if not is_own or not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise Refused(errno.EACCES)
            connected = _connected(socket.AF_UNIX, "/proc/self/fd/%d" % found)
        # A socket that was linked or moved here is served by a process outside of this jail.
        listener = struct.unpack("=3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        # If the gate also executes `listen`, this process is the listener.
        if listener == os.getpid() or listener > 0 and is_below(listener, os.getpid()):
            return connected
        connected.close()
        raise Refused(errno.EACCES)

    def _connect_tcp(self, family, raw):
        if len(raw) < (16 if family == socket.AF_INET else 24):
            raise Refused(errno.EINVAL)
        (port,) = struct.unpack_from("!H", raw, 2)
        packed = raw[4:8] if family == socket.AF_INET else raw[8:24]
        address = (socket.inet_ntop(family, packed), port)
        if self._has_own_network:
            return _connected(family, address)
        if self._bridge and address == ("127.0.0.1", self._bridge_port):
            return self._bridged()
        raise Refused(errno.ENETUNREACH)

    def _bridged(self):
        """A connection to the forwarder, as if it listened on the jail's own loopback."""
        with socket.create_server(("127.0.0.1", 0), backlog=1) as listener:
            inner = _connected(socket.AF_INET, listener.getsockname())
            outer, peer = listener.accept()
            with outer:
                if peer != inner.getsockname():
                    inner.close()
                    raise Refused(errno.ECONNREFUSED)
                socket.send_fds(self._bridge, [b"x"], [outer.fileno()])
        return inner


def _listen(request):
    """With the host's network, a port would be the host's, too: only Unix sockets may listen."""
    with request.socket(request.arguments[0] & 0xFFFFFFFF) as waiting:
        if waiting.family != socket.AF_UNIX:
            raise Refused(errno.EACCES)
        waiting.listen(max(0, signed(request.arguments[1])))


def _connected(family, address):
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # The reaper serves the whole jail: it must not block on one connection.
        made.setblocking(False)
        try:
            made.connect(address)
        except BlockingIOError as error:
            if error.errno != errno.EINPROGRESS:
                raise
            if not select.select([], [made], [], _CONNECT_SECONDS)[1]:
                raise Refused(errno.ETIMEDOUT) from None
            failure = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise Refused(failure) from None
        return made
    except BaseException:
        made.close()
        raise


def _is_in(found, folder):
    """By real path and mount: a foreign folder may be mounted below the session's own."""
    with closing(os.open(folder, os.O_PATH | os.O_CLOEXEC)) as own:
        place, root = real_path(found), real_path(own)
        mounts = [about(os.getpid(), "fdinfo/%d" % each, "mnt_id") for each in (found, own)]
        return place.startswith(root.rstrip(b"/") + b"/") and mounts[0] == mounts[1]
