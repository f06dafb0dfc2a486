"""The limits of limits.ts (`ProcessLimits`), set by a process for itself and all it will start."""

import ctypes
import os
import resource

_MB = 1024 * 1024
_M_ARENA_MAX = -8
# Each thread that allocates gets an arena of its own up to this many; each reserves 64 MB of addresses.
_ARENAS = 4


def join(limits):
    """From now on counted with its session. Before the walls, which hide these files."""
    for path in limits.get("procsFiles", ()):
        with open(path, "w") as procs:
            procs.write("0")


def apply(limits, jailed=True):
    """Memory is counted from what the process has now. `jailed`: only inside are processes counted for the jail alone."""
    used = _used_bytes()
    if "dataMb" in limits:
        _set(resource.RLIMIT_DATA, used["VmData"] + limits["dataMb"] * _MB)
    if "addressSpaceMb" in limits:
        _use_few_arenas()
        _set(resource.RLIMIT_AS, used["VmSize"] + limits["addressSpaceMb"] * _MB)
    _set(resource.RLIMIT_FSIZE, limits["fileSizeMb"] * _MB)
    if jailed:
        _set(resource.RLIMIT_NPROC, limits["processes"])
    _set(resource.RLIMIT_NOFILE, limits["openFiles"])
    _set(resource.RLIMIT_CORE, 0)


def _set(kind, wanted):
    _, most = resource.getrlimit(kind)
    value = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(kind, (value, value))


def _used_bytes():
    with open("/proc/self/status") as lines:
        fields = dict(line.split(":", 1) for line in lines if line.startswith("Vm"))
    return {name: int(value.split()[0]) * 1024 for name, value in fields.items()}


def _use_few_arenas():
    os.environ["MALLOC_ARENA_MAX"] = str(_ARENAS)
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None:  # glibc only
        mallopt(_M_ARENA_MAX, _ARENAS)
