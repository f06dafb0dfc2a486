"""System calls that Python does not offer, by ctypes."""

import ctypes
import errno
import fcntl
import os
import socket
import struct

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mount.argtypes = [ctypes.c_char_p, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_ulong, ctypes.c_char_p]
_libc.syscall.restype = ctypes.c_long

CLONE_NEWNS = 0x00020000
CLONE_NEWCGROUP = 0x02000000
CLONE_NEWUTS = 0x04000000
CLONE_NEWIPC = 0x08000000
CLONE_NEWUSER = 0x10000000
CLONE_NEWPID = 0x20000000
CLONE_NEWNET = 0x40000000

MS_RDONLY = 1
MS_NOSUID = 2
MS_NODEV = 4
MS_NOEXEC = 8
MS_REMOUNT = 32
MS_NOATIME = 1024
MS_NODIRATIME = 2048
MS_BIND = 4096
MS_REC = 16384
MS_PRIVATE = 1 << 18
MS_RELATIME = 1 << 21

_MNT_DETACH = 2
_AT_FDCWD = -100
_AT_RECURSIVE = 0x8000

_PR_SET_PDEATHSIG = 1
_PR_SET_DUMPABLE = 4
_PR_CAPBSET_DROP = 24
_PR_SET_CHILD_SUBREAPER = 36
_PR_SET_NO_NEW_PRIVS = 38
_SECCOMP_SET_MODE_FILTER = 1
_SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
_SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV = 32
_CAPABILITY_VERSION_3 = 0x20080522

# By architecture: pivot_root, seccomp and renameat2. Newer calls have the same number everywhere.
_numbers = {"x86_64": (155, 317, 316), "aarch64": (41, 277, 276)}
_PIDFD_OPEN = 434
_PIDFD_GETFD = 438
_MOUNT_SETATTR = 442
_LANDLOCK_CREATE = 444
_LANDLOCK_ADD_RULE = 445
_LANDLOCK_RESTRICT = 446


def _check(result, what):
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, "%s: %s" % (what, os.strerror(number)))


def _number(index):
    machine = os.uname().machine
    if machine not in _numbers:
        raise OSError("the system calls of %s are not known" % machine)
    return _numbers[machine][index]


def unshare(flags):
    _check(_libc.unshare(flags), "unshare")


def mount(source, target, kind=None, flags=0, data=None):
    encoded = [value if value is None else os.fsencode(value) for value in (source, target, kind, data)]
    _check(_libc.mount(encoded[0], encoded[1], encoded[2], flags, encoded[3]), "mount %s" % target)


def protect(target, read_only):
    """Sets nosuid and nodev, and read-only if asked, on a mount and all below it."""
    flags = MS_NOSUID | MS_NODEV | (MS_RDONLY if read_only else 0)
    # The attributes that mount_setattr sets have the values of these flags.
    attributes = struct.pack("=QQQQ", flags, 0, 0, 0)
    path = os.fsencode(target)
    arguments = (ctypes.c_int(_AT_FDCWD), path, ctypes.c_uint(_AT_RECURSIVE), attributes, ctypes.c_size_t(32))
    if _libc.syscall(ctypes.c_long(_MOUNT_SETATTR), *arguments) == 0:
        return
    # Before Linux 5.12 each mount is changed separately.
    for point in _mounts_below(target):
        kept = _locked_flags(os.statvfs(point).f_flag)
        mount(None, point, None, MS_BIND | MS_REMOUNT | flags | kept)


def _mounts_below(target):
    target = os.path.realpath(target)
    with open("/proc/self/mountinfo", "rb") as lines:
        points = [os.fsdecode(line.split(b" ")[4].decode("unicode_escape").encode("latin-1")) for line in lines]
    return [point for point in points if point == target or point.startswith(target.rstrip("/") + "/")]


def _locked_flags(found):
    """Flags that a user namespace may not remove from a mount, so a remount must repeat them."""
    kept = found & (MS_NOSUID | MS_NODEV | MS_NOEXEC | MS_RDONLY | MS_NOATIME | MS_NODIRATIME)
    return kept | (MS_RELATIME if found & 0x1000 else 0)


def pivot_root_here():
    """Makes the working directory the root and detaches the old root."""
    _check(_libc.syscall(ctypes.c_long(_number(0)), b".", b"."), "pivot_root")
    _check(_libc.umount2(b".", _MNT_DETACH), "umount")
    os.chdir("/")


def loopback_up():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        SIOCSIFFLAGS, IFF_UP = 0x8914, 1
        fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def set_host_name(name):
    _check(_libc.sethostname(name, len(name)), "sethostname")


def signal_when_parent_dies(number):
    _check(_libc.prctl(_PR_SET_PDEATHSIG, number, 0, 0, 0), "prctl")


def adopt_orphans():
    """Orphaned descendants become children of this process, instead of pid 1's."""
    _check(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl")


def hide_from_others():
    """Other processes of the user cannot read its memory or its files in /proc."""
    _check(_libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl")


def forbid_new_privileges():
    """Programs that this process starts cannot gain privileges (setuid)."""
    _check(_libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl")


def drop_privileges():
    """Drops all capabilities permanently."""
    forbid_new_privileges()
    for capability in range(64):
        if _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) < 0:
            break  # Past the last capability of this kernel.
    header = struct.pack("=Ii", _CAPABILITY_VERSION_3, 0)
    _check(_libc.capset(header, bytes(24)), "capset")


def filter_system_calls(program):
    """`program` comes from seccomp.ts. Applies permanently to this thread and its descendants."""
    _install_filter(program, flags=0)


def filter_with_listener(program):
    """The same for a filter that asks another process. Returns the descriptor for the answers."""
    flags = _SECCOMP_FILTER_FLAG_NEW_LISTENER
    try:
        # A signal must not interrupt a call that is being answered: it would be restarted.
        return _install_filter(program, flags | _SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
        return _install_filter(program, flags)  # Before Linux 5.19.


def _install_filter(program, flags):
    instructions = ctypes.create_string_buffer(program, len(program))
    described = struct.pack("@HP", len(program) // 8, ctypes.addressof(instructions))
    call = ctypes.c_long(_number(1))
    result = _libc.syscall(call, ctypes.c_uint(_SECCOMP_SET_MODE_FILTER), ctypes.c_uint(flags), described)
    _check(result, "seccomp")
    return result


def close_descriptors(keep):
    """Closes all above 2 but these."""
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # The descriptor of the listing itself.


def descriptor_of(pid, number):
    """Duplicates a descriptor of another process."""
    process = _libc.syscall(ctypes.c_long(_PIDFD_OPEN), ctypes.c_int(pid), ctypes.c_uint(0))
    _check(process, "pidfd_open")
    try:
        found = _libc.syscall(
            ctypes.c_long(_PIDFD_GETFD), ctypes.c_int(process), ctypes.c_int(number), ctypes.c_uint(0)
        )
        _check(found, "pidfd_getfd")
        return found
    finally:
        os.close(process)


def rename(old_folder, old_name, new_folder, new_name, flags):
    """`os.rename` without flags cannot exchange two names, or refuse to replace one."""
    folders = ctypes.c_int(old_folder), ctypes.c_int(new_folder)
    arguments = (folders[0], old_name, folders[1], new_name, ctypes.c_uint(flags))
    _check(_libc.syscall(ctypes.c_long(_number(2)), *arguments), "renameat2")


def landlock_abi():
    """This kernel's version of Landlock; 0: none."""
    return max(0, _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), None, ctypes.c_size_t(0), ctypes.c_uint(1)))


def landlock_create(attributes):
    arguments = (attributes, ctypes.c_size_t(len(attributes)), ctypes.c_uint(0))
    ruleset = _libc.syscall(ctypes.c_long(_LANDLOCK_CREATE), *arguments)
    _check(ruleset, "landlock_create_ruleset")
    return ruleset


def landlock_allow(ruleset, descriptor, rights):
    rule = struct.pack("=Qi", rights, descriptor)
    arguments = (ctypes.c_int(ruleset), ctypes.c_int(1), rule, ctypes.c_uint(0))
    _check(_libc.syscall(ctypes.c_long(_LANDLOCK_ADD_RULE), *arguments), "landlock_add_rule")


def landlock_restrict(ruleset):
    result = _libc.syscall(ctypes.c_long(_LANDLOCK_RESTRICT), ctypes.c_int(ruleset), ctypes.c_uint(0))
    _check(result, "landlock_restrict_self")
