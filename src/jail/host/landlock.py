"""
Landlock: a process gives up rights over files, TCP, signals and abstract sockets, for itself and all that it starts.
It needs no root, no namespace and no program; no_new_privs must be set. Rights can only be granted for whole trees, so
`landlock.ts` grants what lies around an exception instead of the folder above it.
"""

import os
import stat
import struct

from . import linux

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = 1, 2, 4, 8, 16, 32
_MAKE_REG, _REFER, _TRUNCATE, _IOCTL_DEV = 256, 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
# By the version that brought them.
_NEWER = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_DEVICE = _READ_FILE | _WRITE_FILE
# Shared memory by a name that its maker knows; without reading the folder no other can be found.
_NAMED_MEMORY = _READ_FILE | _WRITE_FILE | _TRUNCATE | _MAKE_REG | _REMOVE_FILE

_TCP_VERSION = 4
_BIND_TCP_AND_CONNECT_TCP = 3
_SCOPE_VERSION = 6
_ABSTRACT_SOCKETS_AND_SIGNALS = 3

_DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
_OWN_PROCESS = "/proc/self/"
# Of the calling process alone, and not its view of the network, which is the machine's.
_PROCESS = (
    ("fd", "fdinfo", "status", "stat", "statm", "maps", "smaps", "smaps_rollup", "cmdline", "comm", "environ", "auxv")
    + ("io", "limits", "cgroup", "mounts", "oom_score", "oom_score_adj", "loginuid", "wchan")
)
# What programs ask of the machine.
_MACHINE = (
    "/proc/cpuinfo",
    "/proc/meminfo",
    "/proc/loadavg",
    "/proc/stat",
    "/proc/uptime",
    "/proc/vmstat",
    "/proc/version",
    "/proc/filesystems",
    "/proc/sys/kernel/osrelease",
    "/proc/sys/kernel/ngroups_max",
    "/proc/sys/kernel/cap_last_cap",
    "/proc/sys/vm/overcommit_memory",
    "/sys/devices/system/cpu",
    "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
)


def restrict_to(policy):
    """For a jail without namespaces: nothing but what the policy names, at its own place, and no TCP."""
    grants = [(mount["from"], _READ) for mount in policy["readOnly"]]
    grants += [(mount["from"], _ALL & ~_IOCTL_DEV) for mount in policy["readWrite"]]
    grants += [(path, _WRITE_FILE) for path in policy.get("pipes", ())]
    grants += [(path, _DEVICE) for path in _DEVICES]
    grants += [(path, _READ) for path in (*_MACHINE, *(_OWN_PROCESS + name for name in _PROCESS))]
    grants.append(("/dev/shm", _NAMED_MEMORY))
    # As the filter of system calls assumes, which closes what an old version leaves open.
    _restrict(grants, policy["landlockAbi"], tcp=True)


def enclose(policy):
    """For a process whose forks are restricted further: what all of them need, and what building a jail takes."""
    grants = [(mount["from"], _READ) for mount in policy["readOnly"]]
    grants += [(mount["from"], _ALL) for mount in policy["readWrite"]]
    grants += [(path, _READ) for path in ("/proc", "/sys")]
    grants += [(path, _ALL) for path in ("/dev", "/sys/fs/cgroup")]
    _restrict(grants, policy["landlockAbi"], tcp=not policy["network"], is_scoped=False)


def restrict_within(policy):
    """Inside namespaces: one more wall. Mounts say already what is there; this says again what can be changed."""
    writable = [mount["at"] for mount in policy["readWrite"]]
    grants = [("/", _READ)] + [(path, _ALL) for path in [*writable, "/tmp", "/dev", "/proc"]]
    grants += [(path, _WRITE_FILE) for path in policy.get("pipes", ())]
    _restrict(grants, linux.landlock_abi(), tcp=False)


def _restrict(grants, version, tcp, is_scoped=True):
    if version == 0:
        return
    handled = _ALL
    for since, right in _NEWER.items():
        if version < since:
            handled &= ~right
    net = _BIND_TCP_AND_CONNECT_TCP if tcp and version >= _TCP_VERSION else 0
    scope = _ABSTRACT_SOCKETS_AND_SIGNALS if is_scoped and version >= _SCOPE_VERSION else 0
    size = 24 if version >= _SCOPE_VERSION else 16 if version >= _TCP_VERSION else 8
    ruleset = linux.landlock_create(struct.pack("=QQQ", handled, net, scope)[:size])
    try:
        for path, rights in grants:
            _grant(ruleset, path, rights & handled)
        linux.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def _grant(ruleset, path, rights):
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # Not there, or out of reach: then it stays so.
    try:
        # Code may have put a link where a folder was when the policy was made: that would open what it leads to.
        if not path.startswith(_OWN_PROCESS) and os.readlink("/proc/self/fd/%d" % descriptor) != path:
            return
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        linux.landlock_allow(ruleset, descriptor, rights if is_folder else rights & _FILE_RIGHTS)
    finally:
        os.close(descriptor)
