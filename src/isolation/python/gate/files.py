"""
Changes to files, where there are no read-only mounts.

Landlock does not restrict modes, owners and times. And it grants whole trees only: for a folder with protected names
in it (`.git`, an environment), the entries around them are granted, so nothing could be created, moved or removed in
the folder itself. In such *guarded* folders the gate does that for the caller, after checking the real path.
"""

import contextlib
import errno
import fcntl
import os
import stat
import struct
import time

from .. import linux
from .guarded_folders import GuardedFolders
from .request import AT_FDCWD, LetThrough, Refused, closing, real_path, signed

_AT_SYMLINK_NOFOLLOW = 0x100
_AT_REMOVEDIR = 0x200
# Two times in seconds and nanoseconds; UTIME_NOW and UTIME_OMIT are special nanoseconds.
_TIMES = struct.Struct("=qqqq")
_NOW, _OMIT = (1 << 30) - 1, (1 << 30) - 2
# The kernel's own limit.
_MAX_LINKS = 40
# No setuid, setgid or devices: files, pipes and sockets with ordinary modes.
_MODE = 0o1777
_MAKEABLE = (0, stat.S_IFREG, stat.S_IFIFO, stat.S_IFSOCK)
# Always set, so that opening follows no link, does not block, and takes over no terminal.
_OPEN_IN_PLACE = os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


def calls(rules):
    files = _Files(GuardedFolders(rules["writable"], rules.get("guarded", ())))
    return {
        "chmod": lambda it: files.set_mode(it, (AT_FDCWD, it.arguments[0], 0), it.arguments[1]),
        "fchmod": lambda it: files.set_mode(it, (it.arguments[0], 0, 0), it.arguments[1]),
        "fchmodat": lambda it: files.set_mode(it, (*it.arguments[:2], 0), it.arguments[2]),
        "fchmodat2": lambda it: files.set_mode(it, (*it.arguments[:2], it.arguments[3]), it.arguments[2]),
        "chown": lambda it: files.set_owner(it, (AT_FDCWD, it.arguments[0], 0), *it.arguments[1:3]),
        "lchown": lambda it: files.set_owner(it, (AT_FDCWD, it.arguments[0], _AT_SYMLINK_NOFOLLOW), *it.arguments[1:3]),
        "fchown": lambda it: files.set_owner(it, (it.arguments[0], 0, 0), *it.arguments[1:3]),
        "fchownat": lambda it: files.set_owner(it, (*it.arguments[:2], it.arguments[4]), *it.arguments[2:4]),
        "utimensat": lambda it: files.set_times(it, (*it.arguments[:2], it.arguments[3]), it.arguments[2]),
        "open": lambda it: files.open(it, AT_FDCWD, *it.arguments[:3]),
        "openat": lambda it: files.open(it, *it.arguments[:4]),
        "creat": lambda it: files.open(
            it, AT_FDCWD, it.arguments[0], os.O_CREAT | os.O_WRONLY | os.O_TRUNC, it.arguments[1]
        ),
        "truncate": lambda it: files.truncate(it, *it.arguments[:2]),
        "mkdir": lambda it: files.make_folder(it, AT_FDCWD, *it.arguments[:2]),
        "mkdirat": lambda it: files.make_folder(it, *it.arguments[:3]),
        "mknod": lambda it: files.make_node(it, AT_FDCWD, *it.arguments[:2]),
        "mknodat": lambda it: files.make_node(it, *it.arguments[:3]),
        "rmdir": lambda it: files.remove(it, AT_FDCWD, it.arguments[0], _AT_REMOVEDIR),
        "unlink": lambda it: files.remove(it, AT_FDCWD, it.arguments[0], 0),
        "unlinkat": lambda it: files.remove(it, *it.arguments[:3]),
        "symlink": lambda it: files.make_symlink(it, it.arguments[0], AT_FDCWD, it.arguments[1]),
        "symlinkat": lambda it: files.make_symlink(it, *it.arguments[:3]),
        "link": lambda it: files.link(it, (AT_FDCWD, it.arguments[0]), (AT_FDCWD, it.arguments[1]), 0),
        "linkat": lambda it: files.link(it, it.arguments[:2], it.arguments[2:4], it.arguments[4]),
        "rename": lambda it: files.rename(it, (AT_FDCWD, it.arguments[0]), (AT_FDCWD, it.arguments[1]), 0),
        "renameat": lambda it: files.rename(it, it.arguments[:2], it.arguments[2:4], 0),
        "renameat2": lambda it: files.rename(it, it.arguments[:2], it.arguments[2:4], it.arguments[4]),
    }


class _Files:
    def __init__(self, folders):
        self._folders = folders
        # The caller's umask applies, not this process's.
        os.umask(0)

    # Modes, owners and times: set on the file that was opened and checked.

    def set_mode(self, request, place, mode):
        with self._open_own(request, *place) as found:
            os.chmod("/proc/self/fd/%d" % found, mode & _MODE)

    def set_owner(self, request, place, user, group):
        """The filter only allows the session's own user; but even an unchanged owner clears setuid bits."""
        with self._open_own(request, *place) as found:
            if not stat.S_ISLNK(os.fstat(found).st_mode):
                os.chown("/proc/self/fd/%d" % found, signed(user), signed(group))

    def set_times(self, request, place, address):
        with self._open_own(request, *place) as found:
            times = _TIMES.unpack(request.read(address, _TIMES.size)) if address else (0, _NOW) * 2
            now, before = time.time_ns(), os.fstat(found)
            accessed, modified = (
                now if part == _NOW else same if part == _OMIT else seconds * 10**9 + part
                for seconds, part, same in (times[:2] + (before.st_atime_ns,), times[2:] + (before.st_mtime_ns,))
            )
            # Times of a symlink itself do not matter.
            if not stat.S_ISLNK(before.st_mode):
                os.utime("/proc/self/fd/%d" % found, ns=(accessed, modified))

    @contextlib.contextmanager
    def _open_own(self, request, descriptor, address, flags):
        """What a descriptor and a path mean to the caller, opened, if the session may write there."""
        path = request.path(address) if address else b""
        base = request.base(descriptor)
        whole = request.as_seen(path, base) if path else base
        nofollow = os.O_NOFOLLOW if flags & _AT_SYMLINK_NOFOLLOW and path else 0
        with closing(os.open(whole, os.O_PATH | os.O_CLOEXEC | nofollow)) as found:
            about = os.fstat(found)
            # An unlinked file belongs to the caller if it holds the descriptor; by path (/proc) it may be anyone's.
            is_nameless = not path and about.st_nlink == 0
            if about.st_uid != os.geteuid() or not (is_nameless or self._folders.may_write(real_path(found))):
                raise Refused(errno.EPERM)
            yield found

    # Names in guarded folders. Other and protected paths are let through: Landlock judges them.

    def open(self, request, descriptor, address, flags, mode):
        flags &= 0xFFFFFFFF
        if flags & os.O_PATH:
            raise LetThrough
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            return self._refuse_nameless(request, descriptor, address)
        follows = not flags & os.O_NOFOLLOW and flags & (os.O_CREAT | os.O_EXCL) != os.O_CREAT | os.O_EXCL
        with _find(request, descriptor, address, follows=follows) as place:
            self._judge(place)
            opened = self._open_file(place, flags, mode & _MODE & ~request.umask())
        with closing(opened):
            if not flags & os.O_NONBLOCK:
                fcntl.fcntl(opened, fcntl.F_SETFL, fcntl.fcntl(opened, fcntl.F_GETFL) & ~os.O_NONBLOCK)
            return request.give(opened, flags & os.O_CLOEXEC)

    def truncate(self, request, address, length):
        with _find(request, AT_FDCWD, address, follows=True) as place:
            self._judge(place)
            opened = self._open_file(place, os.O_WRONLY, 0)
        with closing(opened):
            os.ftruncate(opened, struct.unpack("=q", struct.pack("=Q", length))[0])

    def make_folder(self, request, descriptor, address, mode):
        with _find(request, descriptor, address, may_end_in_slash=True) as place:
            self._judge(place, leads_on=True)
            os.mkdir(place.name, mode & _MODE & ~request.umask(), dir_fd=place.folder)

    def make_node(self, request, descriptor, address, mode):
        with _find(request, descriptor, address) as place:
            self._judge(place)
            if stat.S_IFMT(mode) not in _MAKEABLE:
                raise Refused(errno.EPERM)
            os.mknod(place.name, stat.S_IFMT(mode) | mode & _MODE & ~request.umask(), dir_fd=place.folder)

    def make_symlink(self, request, target, descriptor, address):
        with _find(request, descriptor, address) as place:
            self._judge(place)
            os.symlink(request.path(target), place.name, dir_fd=place.folder)

    def remove(self, request, descriptor, address, flags):
        with _find(request, descriptor, address, may_end_in_slash=bool(flags & _AT_REMOVEDIR)) as place:
            self._judge(place)
            (os.rmdir if flags & _AT_REMOVEDIR else os.unlink)(place.name, dir_fd=place.folder)

    def link(self, request, old, new, flags):
        """Both names must be writable: a hard link is another way to change the file."""
        if flags:
            raise LetThrough
        with _find(request, *old) as source, _find(request, *new) as target:
            self._judge(source, target)
            os.link(source.name, target.name, src_dir_fd=source.folder, dst_dir_fd=target.folder, follow_symlinks=False)

    def rename(self, request, old, new, flags):
        with (
            _find(request, *old, may_end_in_slash=True) as source,
            _find(request, *new, may_end_in_slash=True) as target,
        ):
            self._judge(source, target)
            linux.rename(source.folder, source.name, target.folder, target.name, flags & 0xFFFFFFFF)

    def _judge(self, *places, leads_on=False):
        """Returns if the gate must act: all are writable, but Landlock does not grant all of them."""
        if all(self._folders.is_granted(place.parent) for place in places):
            raise LetThrough
        if not all(self._folders.may_change(place.path, leads_on) for place in places):
            raise LetThrough

    def _open_file(self, place, flags, mode):
        try:
            found = os.stat(place.name, dir_fd=place.folder, follow_symlinks=False)
        except FileNotFoundError:
            found = None
        # Opening a pipe could block; for a folder the kernel returns the right error.
        if found and not stat.S_ISREG(found.st_mode):
            raise LetThrough
        return os.open(place.name, flags & ~os.O_ASYNC | _OPEN_IN_PLACE, mode, dir_fd=place.folder)

    def _refuse_nameless(self, request, descriptor, address):
        """An unnamed file (O_TMPFILE) has no path to check. Programs fall back to a named one."""
        whole = request.as_seen(request.path(address), request.base(descriptor))
        try:
            folder = os.open(whole, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError:
            raise LetThrough from None
        with closing(folder):
            if self._folders.is_granted(real_path(folder)):
                raise LetThrough
        raise Refused(errno.EOPNOTSUPP)


class _Place:
    """A name in a folder that is held open. The folder may be moved meanwhile, but only within what is allowed."""

    def __init__(self, folder, name):
        self.folder = folder
        self.name = name
        self.parent = real_path(folder)
        self.path = self.parent.rstrip(b"/") + b"/" + name

    def __enter__(self):
        return self

    def __exit__(self, *_):
        os.close(self.folder)


def _find(request, descriptor, address, follows=False, may_end_in_slash=False):
    path, base = request.path(address), request.base(descriptor)
    if may_end_in_slash:
        path = path.rstrip(b"/")
    held = None
    try:
        for _ in range(_MAX_LINKS):
            head, slash, name = path.rpartition(b"/")
            if name in (b"", b".", b".."):
                raise LetThrough
            folder = os.open(
                request.as_seen(head + slash, base) if slash else base, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
            )
            if held is not None:
                os.close(held)
            held = folder
            target = _target(folder, name) if follows else None
            if target is None:
                place = _Place(folder, name)
                held = None
                return place
            path, base = target, b"/proc/self/fd/%d" % folder
        raise LetThrough
    except OSError:
        # A missing parent folder: the kernel reports that.
        raise LetThrough from None
    finally:
        if held is not None:
            os.close(held)


def _target(folder, name):
    """Where a symbolic link leads; None for anything else."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.EINVAL, errno.ENOENT):
            return None
        raise
