"""
Answers system calls that a seccomp filter cannot judge, because the decision depends on memory or on other processes.
The jailed program installs a filter (`gateFilter` of seccomp.ts) that asks here; the jail's reaper, an ancestor of all
callers, answers.

A call whose arguments are in memory is never allowed because of what was read there: another thread could change it
in between (TOCTOU). The reaper executes it itself, on what it has opened, or lets it through to Landlock, which judges
it again. The calls are in connections.py, files.py, quota.py and signals.py.
"""

import errno
import fcntl
import os
import select
import socket
import struct

from .. import linux
from . import connections, files, quota, signals
from .request import LetThrough, Refused, Request

_RECEIVE, _SEND, _SET_FLAGS = 0xC0502100, 0xC0182101, 0x40082104
# Caller and reaper run on the same CPU, which is six times as fast as waking another.
_SYNC_WAKE_UP = 1
_NOTICE = struct.Struct("=QIIiIQ6Q")
# Response flag: the kernel continues the call.
_CONTINUE = 1


def wanted(policy):
    return "gate" in policy


def install(channel, policy):
    """In the program: installs the filter and sends its listener to the reaper, and nowhere else."""
    listener = linux.filter_with_listener(bytes.fromhex(policy["gate"]["filter"]))
    socket.send_fds(channel, [b"x"], [listener])
    os.close(listener)
    channel.close()


def open_gate(channel, policy, bridge):
    """In the reaper. None if the program ended before it installed the filter."""
    _, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    channel.close()
    return Gate(descriptors[0], policy["gate"], bridge) if descriptors else None


class Gate:
    def __init__(self, descriptor, rules, bridge):
        self.descriptor = descriptor
        try:
            fcntl.ioctl(descriptor, _SET_FLAGS, _SYNC_WAKE_UP)
        except OSError:
            pass  # Before Linux 6.6.
        self._bridge = bridge
        calls = {
            **connections.calls(rules, bridge),
            **files.calls(rules),
            **signals.calls(),
            **quota.calls(rules.get("quota")),
        }
        self._calls = {number: calls[name] for name, number in rules["calls"].items()}

    @property
    def descriptors(self):
        """Descriptors that the reaper must not close."""
        return [self.descriptor, *([self._bridge.fileno()] if self._bridge else [])]

    def answer(self, ready):
        """False: no process with the filter is left."""
        if not ready & select.POLLIN:
            return False
        notice = bytearray(_NOTICE.size)
        try:
            fcntl.ioctl(self.descriptor, _RECEIVE, notice, True)
        except OSError as error:
            return error.errno in (errno.ENOENT, errno.EINTR)  # The caller has ended.
        cookie, pid, _, call, _, _, *arguments = _NOTICE.unpack(notice)
        request = Request(self.descriptor, cookie, pid, arguments)
        try:
            self._send(cookie, value=self._calls[call](request) or 0)
        except LetThrough:
            self._send(cookie, flags=_CONTINUE)
        except Refused as refusal:
            self._send(cookie, error=refusal.number)
        except OSError as error:
            self._send(cookie, error=error.errno or errno.EPERM)
        except Exception:
            # Whatever a hostile caller provokes, the reaper must survive.
            self._send(cookie, error=errno.EPERM)
        return True

    def _send(self, cookie, value=0, flags=0, error=0):
        try:
            fcntl.ioctl(self.descriptor, _SEND, struct.pack("=QqiI", cookie, value, -error, flags))
        except OSError:
            pass  # The caller was killed meanwhile.
