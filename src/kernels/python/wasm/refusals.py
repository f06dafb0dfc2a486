"""Refuses what WebAssembly cannot do, with a message that says what to do instead."""

import _thread
import builtins
import errno
import getpass
import os
import socket
import subprocess
import threading

from _cellwright import text_streams

_PROCESS = (
    "This kernel cannot start processes: it runs in WebAssembly and has no shell. "
    "Do it in Python itself (shutil, pathlib, zipfile, sqlite3, …)."
)
_THREAD = (
    "This kernel cannot start threads or processes: it runs in WebAssembly. "
    "Run the work in order, or use asyncio with top-level await."
)
_NETWORK = (
    "This kernel has no network, so {} cannot be reached. "
    "Put the data into the workspace as a file, or pass it in with the call's variables."
)


def install(sys):
    def no_input(prompt="", /):
        raise EOFError(text_streams.NO_INPUT)

    def no_getpass(prompt="Password: ", stream=None, **_options):
        raise EOFError(text_streams.NO_INPUT)

    def no_process(*_args, **_options):
        raise OSError(errno.ENOTSUP, _PROCESS)

    def no_thread(*_args, **_options):
        raise RuntimeError(f"can't start new thread. {_THREAD}")

    def no_network(*args, **_options):
        raise OSError(errno.ENETUNREACH, _NETWORK.format(_place(args)))

    sys.stdin = sys.__stdin__ = text_streams.NoStdin()
    builtins.input = no_input
    getpass.getpass = no_getpass

    subprocess.Popen.__init__ = no_process
    for name in ("system", "popen", "fork", "forkpty", "posix_spawn", "posix_spawnp"):
        if hasattr(os, name) or name in ("system", "popen"):
            setattr(os, name, no_process)
    for name in [name for name in dir(os) if name.startswith(("exec", "spawn"))]:
        setattr(os, name, no_process)

    threading.Thread.start = no_thread
    threading._start_joinable_thread = no_thread  # pyright: ignore[reportAttributeAccessIssue]
    _thread.start_new_thread = no_thread
    _thread.start_joinable_thread = no_thread

    socket.socket = _socket_class(no_network)
    for name in ("getaddrinfo", "gethostbyname", "gethostbyname_ex", "gethostbyaddr"):
        if hasattr(socket, name):
            setattr(socket, name, no_network)


def _place(args):
    """The network target among a function's arguments."""
    for value in args:
        if isinstance(value, tuple) and len(value) >= 2:
            return f"{value[0]}:{value[1]}"
        if isinstance(value, str):
            return value
    return "the outside"


def _socket_class(no_network):
    """Sockets can be created, because libraries do so on import, but cannot connect."""

    class refusing_socket(socket.socket):
        connect = connect_ex = bind = listen = sendto = no_network

    refusing_socket.__name__ = refusing_socket.__qualname__ = "socket"
    refusing_socket.__module__ = "socket"
    return refusing_socket
