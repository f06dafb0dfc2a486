# What probes in Python have at hand. Read in front of each of them; for both languages, so standard library only.
# ruff: noqa: F401
import ctypes
import fcntl
import json
import os
import platform
import signal
import socket
import stat
import struct
import subprocess
import sys
import time

# Put together at run time, so that no source, traceback or echo has it.
GOT = "-".join(["GOT", "THROUGH"])
WORKSPACE = os.getcwd()
TMP = os.environ.get("TMPDIR", "/tmp")
# Where the kernel's sockets and its connection file are.
kernel_app = sys.modules.get("ipykernel.kernelapp")
SOCKETS = os.path.dirname(kernel_app.IPKernelApp.instance().connection_file) if kernel_app else "/run/cellwright"

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
# On x86-64 and on arm64.
CALLS = {
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438),
    "unshare": (272, 97),
    "setns": (308, 268),
    "clone": (56, 220),
    "clone3": (435, 435),
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "fsopen": (430, 430),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "io_uring_setup": (425, 425),
    "add_key": (248, 217),
    "keyctl": (250, 219),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "kexec_load": (246, 104),
    "init_module": (175, 105),
    "syslog": (103, 116),
    "swapon": (167, 224),
    "fanotify_init": (300, 262),
    "clock_settime": (227, 112),
    "settimeofday": (164, 170),
    "acct": (163, 89),
    "kcmp": (312, 272),
    "reboot": (169, 142),
}


def syscall(name, *arguments):
    number = CALLS[name][0 if platform.machine() == "x86_64" else 1]
    result = libc.syscall(ctypes.c_long(number), *arguments)
    if result < 0:
        raise OSError(ctypes.get_errno(), name)
    return result


def number(value):
    return ctypes.c_ulong(value)


def read(path, size=100_000):
    with open(path, "rb") as file:
        return file.read(size).decode(errors="replace")


def opens(path, flags=os.O_WRONLY):
    """Only opened: a write there could do harm."""
    os.close(os.open(path, flags))
    return GOT


def write(path, text):
    """Unbuffered: a buffered write has not been refused yet."""
    file = os.open(path, os.O_WRONLY)
    try:
        os.write(file, text.encode())
    finally:
        os.close(file)


def sh(command, seconds=5):
    done = subprocess.run(["bash", "-c", command], stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
    return (done.stdout + done.stderr).decode(errors="replace")


def ask(address, family=socket.AF_INET, kind=socket.SOCK_STREAM, text=b"GET / HTTP/1.0\r\n\r\n"):
    """The answer of a server at this address."""
    with socket.socket(family, kind) as connection:
        connection.settimeout(2)
        connection.connect(address)
        connection.send(text)
        return connection.recv(4096).decode(errors="replace") or "nothing"


def in_child(act):
    """How a child process ends that does this: for actions that may kill or change the process."""
    read_end, write_end = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(write_end, str(act()).encode())
        except BaseException as error:
            os.write(write_end, f"DENIED {error}".encode())
        os._exit(0)
    os.close(write_end)
    with open(read_end, "rb") as said:
        text = said.read().decode()
    _, status = os.waitpid(pid, 0)
    return f"{text} status {status}"


def battery(ways):
    """Tries one after another, and reports the result of each."""
    for name, source in ways.items():
        scope = dict(globals(), out="")
        try:
            exec(source, scope)
            told = str(scope["out"])[:2_000]
        except BaseException as error:
            told = f"DENIED {type(error).__name__}: {error}"[:300]
        print(f"[{name}] " + " ".join(told.split()), flush=True)
    print("[end]")
