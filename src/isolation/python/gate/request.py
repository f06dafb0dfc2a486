"""A system call that waits for the gate's answer: its arguments, its caller's memory and descriptors."""

import contextlib
import errno
import fcntl
import os
import socket
import struct

from .. import linux

AT_FDCWD = -100

_IS_VALID, _ADD_DESCRIPTOR = 0x40082102, 0x40182103
_SET_DESCRIPTOR = 1
_PAGE_BYTES = 4096
_MAX_PATH_BYTES = 4096


class Refused(Exception):
    def __init__(self, number):
        super().__init__(number)
        self.number = number


class LetThrough(Exception):
    """The kernel executes the call itself, subject to Landlock and the other filters."""


@contextlib.contextmanager
def closing(descriptor):
    try:
        yield descriptor
    finally:
        os.close(descriptor)


class Request:
    def __init__(self, gate, cookie, pid, arguments):
        self.pid = pid
        self.arguments = arguments
        self._gate = gate
        self._cookie = cookie

    def read(self, address, most):
        """Returns less if the readable memory ends earlier."""
        with open("/proc/%d/mem" % self.pid, "rb", buffering=0) as memory:
            memory.seek(address)
            try:
                data = memory.read(most)
            except OSError:
                memory.seek(address)
                data = memory.read(_PAGE_BYTES - address % _PAGE_BYTES)
        self._check_caller()
        return data

    def path(self, address):
        return self.read(address, _MAX_PATH_BYTES).partition(b"\0")[0]

    def base(self, descriptor):
        """The folder that relative paths start from, as seen by this process."""
        number = signed(descriptor)
        return b"/proc/%d/cwd" % self.pid if number == AT_FDCWD else b"/proc/%d/fd/%d" % (self.pid, number)

    def as_seen(self, path, base):
        """A path of the caller, as seen by this process: in /proc, `self` means the caller."""
        for own in (b"/proc/self/", b"/proc/thread-self/"):
            if path.startswith(own):
                return b"/proc/%d/%s" % (self.pid, path[len(own) :])
        return path if path.startswith(b"/") else base + b"/" + path

    def umask(self):
        return int(self._about("status", "Umask"), 8)

    def flags_of(self, descriptor):
        return int(self._about("fdinfo/%d" % descriptor, "flags"), 8)

    def socket(self, number):
        """The caller's socket, even if the caller replaces its descriptor meanwhile."""
        descriptor = linux.descriptor_of(int(self._about("status", "Tgid")), number)
        try:
            self._check_caller()
            return socket.socket(fileno=descriptor)
        except OSError:
            os.close(descriptor)
            raise

    def give(self, descriptor, close_on_exec):
        """Copies a descriptor into the caller. Returns its number there."""
        # With a mutable buffer, ioctl returns the number and not the buffer.
        added = bytearray(struct.pack("=QIIII", self._cookie, 0, descriptor, 0, close_on_exec))
        return fcntl.ioctl(self._gate, _ADD_DESCRIPTOR, added, True)

    def replace(self, number, descriptor, close_on_exec):
        """The same, replacing a descriptor of the caller."""
        added = struct.pack("=QIIII", self._cookie, _SET_DESCRIPTOR, descriptor, number, close_on_exec)
        fcntl.ioctl(self._gate, _ADD_DESCRIPTOR, added)

    def _check_caller(self):
        """Checks that the inspected process is still the caller, and not a later one with the same pid."""
        fcntl.ioctl(self._gate, _IS_VALID, struct.pack("=Q", self._cookie))

    def _about(self, file, name):
        return about(self.pid, file, name)


def about(pid, file, name):
    """A line of a process's file in /proc."""
    with open("/proc/%d/%s" % (pid, file)) as lines:
        for line in lines:
            if line.startswith(name + ":"):
                return line.split()[1]
    raise Refused(errno.EBADF)


def real_path(descriptor):
    """Its real path. For a removed file, or one in another mount namespace, the path may name something else."""
    path = os.readlink(b"/proc/self/fd/%d" % descriptor)
    if not os.path.samestat(os.lstat(path), os.fstat(descriptor)):
        raise FileNotFoundError(errno.ENOENT, "not at its path")
    return path


def signed(value):
    return struct.unpack("=i", struct.pack("=I", value & 0xFFFFFFFF))[0]
