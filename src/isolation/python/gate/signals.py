"""Signals, where Landlock does not restrict them. Their arguments are numbers, which cannot change after the check."""

import errno
import os

from .request import LetThrough, Refused, about, signed


def calls():
    return {
        "kill": _kill,
        "tgkill": _tgkill,
        "tkill": _tkill,
        "rt_sigqueueinfo": _tgkill,
        "rt_tgsigqueueinfo": _tgkill,
        "pidfd_send_signal": _pidfd_send_signal,
    }


def is_below(pid, ancestor):
    """Whether one process is a descendant of another."""
    while pid > 1:
        pid = int(_stat_of(pid)[1])
        if pid == ancestor:
            return True
    return False


def _kill(request):
    target = signed(request.arguments[0])
    if target == 0 or target == _group_leader(request.pid):
        raise LetThrough
    _judge([target] if target > 0 else _members(-target) if target < -1 else [])


def _tgkill(request):
    _judge([signed(request.arguments[0])])


def _tkill(request):
    _judge([_group_leader(signed(request.arguments[0]))])


def _pidfd_send_signal(_request):
    raise Refused(errno.EPERM)


def _judge(targets):
    if targets and all(is_below(target, os.getpid()) for target in targets):
        raise LetThrough
    raise Refused(errno.EPERM)


def _group_leader(thread):
    try:
        return int(about(thread, "status", "Tgid"))
    except OSError:
        raise Refused(errno.ESRCH) from None


def _stat_of(pid):
    try:
        with open("/proc/%d/stat" % pid) as file:
            # State, parent, process group.
            return file.read().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        raise Refused(errno.ESRCH) from None


def _members(group):
    members = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                if int(_stat_of(int(name))[2]) == group:
                    members.append(int(name))
            except Refused:
                pass
    if not members:
        raise Refused(errno.ESRCH)
    return members
