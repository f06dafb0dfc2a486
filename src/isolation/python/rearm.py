"""Restores read-only mounts in a running jail. Standard library only; Linux 5.12 or newer.

    python3 -I rearm.py PID read-only|pin PATH...

A host program that replaces a mount point (`git config` replaces `.git/config`) removes the mount inside the jail. Each
PATH, as the jail of process PID sees it, is mounted on itself: read-only, or as a pin, which is writable but cannot be
renamed. Prints device and inode of each, so that the caller can compare them with the host's. Files are held by
descriptors: code in the jail may swap names at any time.
"""

import ctypes
import fcntl
import os
import stat
import sys

_NS_GET_USERNS = 0xB701
_CLONE_NEWNS = 0x00020000
_CLONE_NEWUSER = 0x10000000
_SYS_OPEN_TREE, _SYS_MOVE_MOUNT, _SYS_MOUNT_SETATTR = 428, 429, 442
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC = 1, os.O_CLOEXEC
_AT_EMPTY_PATH = 0x1000
_MOVE_MOUNT_F_EMPTY_PATH, _MOVE_MOUNT_T_EMPTY_PATH = 4, 0x40
_MOUNT_ATTR_RDONLY, _MOUNT_ATTR_NOSUID, _MOUNT_ATTR_NODEV = 1, 2, 4

_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def _checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def _enter(pid):
    """Enters the mount namespace of a process, with the rights of its user namespace."""
    mounts = os.open("/proc/%d/ns/mnt" % pid, os.O_RDONLY)
    owner = fcntl.ioctl(mounts, _NS_GET_USERNS)
    own = os.open("/proc/self/ns/user", os.O_RDONLY)
    if not os.path.samestat(os.fstat(owner), os.fstat(own)):
        _checked(_libc.setns(owner, _CLONE_NEWUSER))
    _checked(_libc.setns(mounts, _CLONE_NEWNS))


class _MountAttr(ctypes.Structure):
    _fields_ = [(name, ctypes.c_uint64) for name in ("attr_set", "attr_clr", "propagation", "userns_fd")]


def _protect(path, read_only):
    place = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    found = os.fstat(place)
    if stat.S_ISLNK(found.st_mode):
        raise OSError("%s is a link now" % path)
    clone = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | _AT_EMPTY_PATH
    tree = _checked(_libc.syscall(_SYS_OPEN_TREE, place, b"", clone))
    attr = _MountAttr((_MOUNT_ATTR_RDONLY if read_only else 0) | _MOUNT_ATTR_NOSUID | _MOUNT_ATTR_NODEV, 0, 0, 0)
    size = ctypes.sizeof(attr)
    _checked(_libc.syscall(_SYS_MOUNT_SETATTR, tree, b"", _AT_EMPTY_PATH, ctypes.byref(attr), ctypes.c_size_t(size)))
    flags = _MOVE_MOUNT_F_EMPTY_PATH | _MOVE_MOUNT_T_EMPTY_PATH
    _checked(_libc.syscall(_SYS_MOVE_MOUNT, tree, b"", place, b"", flags))
    return "%d:%d" % (found.st_dev, found.st_ino)


def main():
    _enter(int(sys.argv[1]))
    for path in sys.argv[3:]:
        print(_protect(path, read_only=sys.argv[2] == "read-only"))


main()
