"""The `ProcessLimits` of limits.ts, set by a process for itself and its descendants."""

import ctypes
import os
import resource

_MB = 1024 * 1024
_M_ARENA_MAX = -8
# Threads get their own malloc arenas, up to this many; each reserves 64 MB of address space.
_ARENAS = 4


def join(limits):
    """Joins the session's cgroups. Must be called before the jail, which hides these files."""
    for path in limits.get("procsFiles", ()):
        with open(path, "w") as procs:
            procs.write("0")


def apply(limits, process_scope=None):
    """
    Memory limits are relative to the current use. Processes are counted per jail in a user `namespace`; otherwise per
    `user`, whose other processes have to be added; without a jail only the cgroup limits them.
    """
    used = _used_bytes()
    if "dataMb" in limits:
        _set(resource.RLIMIT_DATA, used["VmData"] + limits["dataMb"] * _MB)
    if "addressSpaceMb" in limits:
        _use_few_arenas()
        _set(resource.RLIMIT_AS, used["VmSize"] + limits["addressSpaceMb"] * _MB)
    _set(resource.RLIMIT_FSIZE, limits["fileSizeMb"] * _MB)
    if process_scope is not None:
        others = _threads_of_user() if process_scope == "user" else 0
        _set(resource.RLIMIT_NPROC, limits["processes"] + others)
    _set(resource.RLIMIT_CORE, 0)


def apply_open_files(limits):
    _set(resource.RLIMIT_NOFILE, limits["openFiles"])


def _set(kind, wanted):
    _, most = resource.getrlimit(kind)
    value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(kind, (value, value))


def _used_bytes():
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines if line.startswith("Vm"))
    return {name: int(value.split()[0]) * 1024 for name, value in fields.items()}


def _threads_of_user():
    count = 0
    for name in os.listdir("/proc"):
        try:
            if name.isdigit() and os.stat("/proc/" + name).st_uid == os.getuid():
                count += len(os.listdir("/proc/%s/task" % name))
        except OSError:
            pass  # The process has ended meanwhile.
    return count


def _use_few_arenas():
    os.environ["MALLOC_ARENA_MAX"] = str(_ARENAS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc only
        mallopt(_M_ARENA_MAX, _ARENAS)
