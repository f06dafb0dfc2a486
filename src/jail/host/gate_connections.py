"""`connect` and, where the network is the machine's, TCP sockets and `listen`. The gate connects a socket of its own and puts it in place of the caller's."""

import errno
import os
import select
import socket
import stat
import struct

from . import forward
from .gate_request import Refused, about, real_path, signed
from .gate_signals import is_below

_MAX_ADDRESS_BYTES = 128
# On a loopback of its own a connection is made at once, or refused.
_CONNECT_SECONDS = 5


def calls(rules, bridge):
    connections = _Connections(rules, bridge)
    return {"connect": connections.connect, "socket": connections.socket, "listen": _listen}


class _Connections:
    def __init__(self, rules, bridge):
        self._own_folders = rules["ownFolders"]
        self._tcp = rules["tcp"]
        self._bridge = bridge

    def socket(self, request):
        """TCP where the network is the machine's: bound to loopback from its birth, so that no other machine reaches it."""
        family, kind = (each & 0xFFFFFFFF for each in request.arguments[:2])
        with socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC) as made:
            made.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
            made.setblocking(not kind & socket.SOCK_NONBLOCK)
            return request.give(made.fileno(), kind & socket.SOCK_CLOEXEC)

    def connect(self, request):
        descriptor, address, length = request.arguments[0] & 0xFFFFFFFF, request.arguments[1], request.arguments[2] & 0xFFFFFFFF
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
        """Only to sockets that the session's own code has made: in folders that are the session's alone."""
        if not path:
            raise Refused(errno.EACCES)
        found = os.open(request.as_seen(path, b"/proc/%d/cwd" % request.pid), os.O_PATH | os.O_CLOEXEC)
        try:
            is_own = any(_is_in(found, folder) for folder in self._own_folders)
            if not is_own or not stat.S_ISSOCK(os.fstat(found).st_mode):
                raise Refused(errno.EACCES)
            connected = _connected(socket.AF_UNIX, "/proc/self/fd/%d" % found)
        finally:
            os.close(found)
        # One that was linked or moved here from elsewhere is served by a process outside of this jail.
        listener = struct.unpack("=3i", connected.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        # Where this process answers `listen`, too, it counts as who waits there.
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
        if self._tcp == "namespace":
            return _connected(family, address)
        if self._bridge and address == ("127.0.0.1", forward.PORT):
            return self._bridged()
        raise Refused(errno.ENETUNREACH)

    def _bridged(self):
        """As if the forwarder listened on a loopback of the jail's own."""
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
    """Where the network is the machine's, so would a port be: only Unix sockets are waited on."""
    with request.socket(request.arguments[0] & 0xFFFFFFFF) as waiting:
        if waiting.family != socket.AF_UNIX:
            raise Refused(errno.EACCES)
        waiting.listen(max(0, signed(request.arguments[1])))


def _connected(family, address):
    made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
    try:
        # The reaper serves the whole jail: it never blocks on one connection.
        made.setblocking(False)
        try:
            made.connect(address)
        except BlockingIOError as error:
            if error.errno != errno.EINPROGRESS:
                raise
            if not select.select([], [made], [], _CONNECT_SECONDS)[1]:
                raise Refused(errno.ETIMEDOUT)
            failure = made.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if failure:
                raise Refused(failure)
        return made
    except BaseException:
        made.close()
        raise


def _is_in(found, folder):
    """By its real place, and on the same mount: a folder of others may be mounted below one's own."""
    own = os.open(folder, os.O_PATH | os.O_CLOEXEC)
    try:
        place, root = real_path(found), real_path(own)
        mounts = [about(os.getpid(), "fdinfo/%d" % each, "mnt_id") for each in (found, own)]
        return place.startswith(root.rstrip(b"/") + b"/") and mounts[0] == mounts[1]
    finally:
        os.close(own)
