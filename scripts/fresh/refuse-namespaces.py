"""Runs a program whose processes cannot create namespaces, as in a Docker container with the default profile.

    python3 refuse-namespaces.py PROGRAM [ARGUMENT…]

unshare, setns and clone with a namespace flag fail with EPERM. clone3 fails with ENOSYS, because a filter cannot read
its flags; C libraries use clone then. Needs root: without CAP_SYS_ADMIN a filter would mean no_new_privs as well.
"""

import ctypes
import os
import platform
import struct
import sys

# By machine: the kernel's name for the architecture, and the numbers of its system calls.
MACHINES = {
    "x86_64": {"audit": 0xC000003E, "clone": 56, "unshare": 272, "setns": 308, "clone3": 435},
    "aarch64": {"audit": 0xC00000B7, "clone": 220, "unshare": 97, "setns": 268, "clone3": 435},
}
NAMESPACE_FLAGS = 0x7E020000  # mount, cgroup, uts, ipc, user, pid and network: all CLONE_NEW* that clone knows

LOAD, JUMP_EQUAL, JUMP_ANY_BIT, JUMP_AT_LEAST, RETURN = 0x20, 0x15, 0x45, 0x35, 0x06
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # where they are in seccomp_data
ALLOW, KILL_PROCESS, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
X32 = 0x40000000  # the other numbering of the same calls on x86_64

PR_SET_SECCOMP, SECCOMP_MODE_FILTER = 22, 2


def build_filter(machine):
    """Each row is an instruction: code, jump if true, jump if false, operand."""
    rows = [
        (LOAD, 0, 0, ARCHITECTURE),
        (JUMP_EQUAL, 1, 0, machine["audit"]),
        (RETURN, 0, 0, KILL_PROCESS),
        (LOAD, 0, 0, NUMBER),
        (JUMP_AT_LEAST, 6, 0, X32),
        (JUMP_EQUAL, 5, 0, machine["clone3"]),
        (JUMP_EQUAL, 5, 0, machine["unshare"]),
        (JUMP_EQUAL, 4, 0, machine["setns"]),
        (JUMP_EQUAL, 0, 4, machine["clone"]),
        (LOAD, 0, 0, FIRST_ARGUMENT),
        (JUMP_ANY_BIT, 1, 2, NAMESPACE_FLAGS),
        (RETURN, 0, 0, ERRNO | ENOSYS),
        (RETURN, 0, 0, ERRNO | EPERM),
        (RETURN, 0, 0, ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *row) for row in rows), len(rows)


def install(code, length):
    class Program(ctypes.Structure):
        _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]

    libc = ctypes.CDLL(None, use_errno=True)
    program = Program(length, code)
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, ctypes.byref(program), 0, 0) != 0:
        sys.exit(f"refuse-namespaces: no filter could be installed: {os.strerror(ctypes.get_errno())}")


machine = MACHINES.get(platform.machine())
if machine is None:
    sys.exit(f"refuse-namespaces: unknown machine {platform.machine()}")
install(*build_filter(machine))
os.execvp(sys.argv[1], sys.argv[1:])
