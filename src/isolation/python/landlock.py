"""
Landlock: a process restricts its access to files, TCP, signals and abstract sockets, for itself and its descendants.
Needs neither root nor namespaces; no_new_privs must be set. landlock-rules.ts decides what is granted; rights can only
be granted for whole trees.
"""

import os
import stat
import struct

from . import linux

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR, _REMOVE_DIR, _REMOVE_FILE = 1, 2, 4, 8, 16, 32
_MAKE_REG, _REFER, _TRUNCATE, _IOCTL_DEV = 256, 1 << 13, 1 << 14, 1 << 15
_ALL = (1 << 16) - 1
# By the version that introduced them.
_NEWER = {2: _REFER, 3: _TRUNCATE, 5: _IOCTL_DEV}
_FILE_RIGHTS = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RIGHTS = {
    "read": _EXECUTE | _READ_FILE | _READ_DIR,
    "write": _WRITE_FILE,
    "all": _ALL,
    "files": _ALL & ~_IOCTL_DEV,
    "device": _READ_FILE | _WRITE_FILE,
    # Shared memory by its exact name; without reading the folder no other can be found.
    "memory": _READ_FILE | _WRITE_FILE | _TRUNCATE | _MAKE_REG | _REMOVE_FILE,
}

_TCP_VERSION = 4
_BIND_TCP_AND_CONNECT_TCP = 3
_SCOPE_VERSION = 6
_ABSTRACT_SOCKETS_AND_SIGNALS = 3

_OWN_PROCESS = "/proc/self/"


def restrict(rules):
    """Takes the LandlockRules of landlock-rules.ts."""
    version = rules.get("abi", linux.landlock_abi())
    if version == 0:
        return
    handled = _ALL
    for since, right in _NEWER.items():
        if version < since:
            handled &= ~right
    net = _BIND_TCP_AND_CONNECT_TCP if rules["refusesTcp"] and version >= _TCP_VERSION else 0
    scope = _ABSTRACT_SOCKETS_AND_SIGNALS if rules["isScoped"] and version >= _SCOPE_VERSION else 0
    size = 24 if version >= _SCOPE_VERSION else 16 if version >= _TCP_VERSION else 8
    ruleset = linux.landlock_create(struct.pack("=QQQ", handled, net, scope)[:size])
    try:
        for grant in rules["grants"]:
            _grant(ruleset, grant["path"], _RIGHTS[grant["rights"]] & handled)
        linux.landlock_restrict(ruleset)
    finally:
        os.close(ruleset)


def _grant(ruleset, path, rights):
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # Missing or inaccessible: it stays so.
    try:
        # Code may have replaced a folder by a symlink since the policy was made, which would grant its target.
        if not path.startswith(_OWN_PROCESS) and os.readlink("/proc/self/fd/%d" % descriptor) != path:
            return
        is_folder = stat.S_ISDIR(os.fstat(descriptor).st_mode)
        linux.landlock_allow(ruleset, descriptor, rights if is_folder else rights & _FILE_RIGHTS)
    finally:
        os.close(descriptor)
