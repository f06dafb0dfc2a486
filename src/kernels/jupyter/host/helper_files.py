"""The files of a session: list, read, write, remove, look through. See `remote/workspace.ts`, which asks."""

import base64
import contextlib
import errno
import os
import re
import stat
import time

import helper_removal
from helper_walk import (
    GONE,
    MAX_DEPTH,
    TEMPORARY,
    Folder,
    Refusal,
    make_private,
    missing,
    notebooks_folder,
    opened,
    ordinary,
    outside,
    session_root,
    shown,
    temporary_name,
)

# Names sorted at most per folder. In a larger one a listing starts with whatever the disk gives first.
MAX_SORTED = 10_000
# Entries looked at before and after every cell.
MAX_ENTRIES = 10_000
# How far apart two changes must be for a file's times to differ (see src/workspace/read.ts).
TICK_NS = 12_000_000
# Half a file that nobody goes on with.
STALE_UPLOAD_SECONDS = 3_600
UPLOAD = re.compile(r"[0-9a-f-]{36}\Z")


def list_folder(again, notebooks, session, names, recursive, limit):
    root = session_root(notebooks, session)
    if not names and not os.path.lexists(root):
        return {"entries": [], "more": False}
    with opened(root, names) as place:
        if place.stats is None:
            raise missing(place.folder, place.name)
        if not stat.S_ISDIR(place.stats.st_mode):
            raise Refusal("wrong", what="is not a folder")
        entries = []
        with place.folder.enter(place.name) as folder:
            more = not _list_inside(folder, "".join(name + "/" for name in names), 0, entries, recursive, limit)
        return {"entries": entries, "more": more}


def resolve(again, notebooks, session, names):
    """The names without links."""
    with opened(session_root(notebooks, session), names) as place:
        return [name.decode("utf-8", "replace") for name in place.names]


def _list_inside(folder, prefix, depth, entries, recursive, limit):
    """False when something was left out."""
    names, complete = _sorted_names(folder)
    for name in names:
        stats = folder.look(name)
        if stats is None:
            continue
        if len(entries) == limit:
            return False
        path = prefix + shown(name)
        is_folder = stat.S_ISDIR(stats.st_mode)
        is_file = stat.S_ISREG(stats.st_mode)
        kind = "folder" if is_folder else "file" if is_file else "other"
        entries.append([path, kind, stats.st_size if is_file else 0, stats.st_mtime_ns // 1_000_000])
        if not (is_folder and recursive):
            continue
        if depth == MAX_DEPTH:
            return False
        # Removed or replaced while we looked, or closed to us by a cell.
        try:
            with folder.enter(name) as inside:
                if not _list_inside(inside, path + "/", depth + 1, entries, recursive, limit):
                    return False
        except OSError as error:
            if error.errno not in (*GONE, errno.EACCES):
                raise
    return complete


def _sorted_names(folder):
    names = []
    for name, _ in folder.entries():
        if TEMPORARY.match(name):
            continue
        if len(names) == MAX_SORTED:
            return sorted(names, key=_as_javascript_sorts), False
        names.append(name)
    return sorted(names, key=_as_javascript_sorts), True


def _as_javascript_sorts(name):
    return shown(name).encode("utf-16-be")


def read(again, notebooks, session, names, offset, length, limit):
    """A piece of a file, with what would differ if the file were changed meanwhile."""
    with opened(session_root(notebooks, session), names) as place:
        if place.stats is None:
            raise missing(place.folder, place.name)
        fd = place.folder.open_file(place.name, ordinary)
    try:
        started = time.time_ns()
        before = os.fstat(fd)
        if before.st_size > limit:
            raise Refusal("too_large", size=before.st_size)
        data = _read_bytes(fd, offset, min(length, before.st_size - offset))
        after = os.fstat(fd)
    finally:
        os.close(fd)
    # A time in the future is a clock that was set back, not a change to wait for.
    at_rest = abs(started - after.st_ctime_ns) > TICK_NS
    return {
        "size": before.st_size,
        "signature": _signature(after),
        "steady": at_rest and _signature(before) == _signature(after),
        "bytes": base64.b64encode(data).decode(),
    }


def _read_bytes(fd, offset, length):
    pieces = []
    while length > 0:
        piece = os.pread(fd, length, offset)
        if not piece:
            break
        pieces.append(piece)
        offset += len(piece)
        length -= len(piece)
    return b"".join(pieces)


def write(again, notebooks, session, names, data):
    """Puts a whole file in place at once, so that nobody sees half of it."""
    content = base64.b64decode(data)

    def fill(fd, _place):
        write_all(fd, content)

    return _put_in_place(notebooks, session, names, fill)


def upload(again, notebooks, upload, offset, data):
    """A piece of a file that is too large for one message, kept aside until it is whole."""
    with _uploads(notebooks) as folder:
        flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW
        fd = os.open(_upload_name(upload), flags, 0o600, dir_fd=folder.fd)
        try:
            if os.fstat(fd).st_size < offset:
                raise Refusal("gap")
            os.lseek(fd, offset, os.SEEK_SET)
            write_all(fd, base64.b64decode(data))
        finally:
            os.close(fd)


def finish_upload(again, notebooks, session, names, upload, size):
    with _uploads(notebooks) as folder:
        try:
            source = os.open(_upload_name(upload), os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.fd)
        except FileNotFoundError:
            raise Refusal("gap") from None
        try:
            if os.fstat(source).st_size != size:
                raise Refusal("gap")

            def fill(fd, _place):
                while True:
                    piece = os.read(source, 1 << 20)
                    if not piece:
                        return
                    write_all(fd, piece)

            written = _put_in_place(notebooks, session, names, fill)
        finally:
            os.close(source)
        drop_upload(False, notebooks, upload)
        return written


def drop_upload(again, notebooks, upload):
    with _uploads(notebooks) as folder, contextlib.suppress(FileNotFoundError):
        os.unlink(_upload_name(upload), dir_fd=folder.fd)


def _uploads(notebooks):
    path = os.path.join(notebooks_folder(notebooks), b".cellwright", b"uploads")
    make_private(path)
    folder = Folder(path)
    for name, _ in folder.entries():
        stats = folder.look(name)
        if stats and time.time() - stats.st_mtime > STALE_UPLOAD_SECONDS:
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder.fd)
    return folder


def _upload_name(upload):
    if not UPLOAD.match(upload):
        raise Refusal("bug", what="no name of an upload")
    return upload.encode()


def _put_in_place(notebooks, session, names, fill):
    with opened(session_root(notebooks, session), names, create=True) as place:
        if place.name == b".":
            raise Refusal("wrong", what="is a folder, not a file")
        if place.stats:
            ordinary(place.stats)
        temporary = temporary_name()
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600, dir_fd=place.folder.fd)
        try:
            try:
                fill(fd, place)
                # A script stays executable when it is edited.
                if place.stats:
                    os.fchmod(fd, (place.stats.st_mode & 0o700) | 0o600)
            finally:
                os.close(fd)
            os.rename(temporary, place.name, src_dir_fd=place.folder.fd, dst_dir_fd=place.folder.fd)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=place.folder.fd)
            raise
        return {"created": place.stats is None}


def write_all(fd, data):
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def remove(again, notebooks, session, names):
    """Returns what is still to be emptied, if that takes longer."""
    with opened(session_root(notebooks, session), names, keep_last_link=True) as place:
        if place.stats is None:
            if again:
                return {"doomed": None}
            raise missing(place.folder, place.name)
        if place.name == b".":
            raise outside("the workspace itself cannot be removed")
        doomed = helper_removal.take_away(place.folder, place.name, place.folder)
        return {"doomed": _emptied(place.folder, doomed)}


def remove_rest(again, notebooks, session, names, doomed):
    """Goes on with what `remove` began: `names` are those of the folder that it is in."""
    name = doomed.encode()
    if not TEMPORARY.match(name):
        raise Refusal("bug", what="nothing of ours")
    try:
        with opened(session_root(notebooks, session), names) as place, place.folder.enter(place.name) as folder:
            return {"doomed": _emptied(folder, name if folder.look(name) else None)}
    except FileNotFoundError:
        # A cell moved the folder away meanwhile, and what is doomed with it.
        return {"doomed": None}


def _emptied(folder, doomed):
    if doomed is None or helper_removal.empty(folder, doomed):
        return None
    return doomed.decode()


def scan(again, notebooks, session):
    """Regular files, each with what would differ if it were changed. Sizes are what the disk really gives."""
    picture = _Picture()
    try:
        root = Folder(session_root(notebooks, session))
    except OSError as error:
        # Looking must not fail for what a cell did: a removed workspace is an empty one, a replaced one cannot be told.
        picture.complete = isinstance(error, FileNotFoundError)
        return picture.facts()
    with root:
        picture.take(root, "", 0)
    return picture.facts()


class _Picture:
    def __init__(self):
        self.files = []
        self.seen = 0
        self.total_bytes = 0
        self.complete = True

    def facts(self):
        return {"files": self.files, "complete": self.complete, "totalBytes": self.total_bytes}

    def take(self, folder, prefix, depth):
        for name, path in self._visit(folder, prefix):
            if depth == MAX_DEPTH or self.seen > MAX_ENTRIES:
                self.complete = False
                return
            # A folder that a cell removes or replaces while we look is as good as not there.
            try:
                inside = folder.enter(name)
            except OSError as error:
                if error.errno not in GONE:
                    raise
                continue
            with inside:
                self.take(inside, path + "/", depth + 1)

    def _visit(self, folder, prefix):
        """Returns the folders in it."""
        folders = []
        try:
            for name, _ in folder.entries():
                self.seen += 1
                if self.seen > MAX_ENTRIES:
                    self.complete = False
                    break
                stats = folder.look(name)
                if stats is None:
                    continue
                path = prefix + shown(name)
                self.total_bytes += stats.st_blocks * 512
                if stat.S_ISDIR(stats.st_mode):
                    folders.append((name, path))
                elif stat.S_ISREG(stats.st_mode) and "__pycache__/" not in path and not TEMPORARY.match(name):
                    self.files.append([path, _signature(stats)])
        except OSError:
            # A cell may close its own folders to us; looking at the rest is still worth it.
            self.complete = False
        return folders


def _signature(stats):
    """The size comes first, where `compare` of src/workspace reads it."""
    return "%d %d %d %d" % (stats.st_size, stats.st_mtime_ns, stats.st_ctime_ns, stats.st_ino)


OPERATIONS = {
    "list": list_folder,
    "read": read,
    "resolve": resolve,
    "write": write,
    "upload": upload,
    "finish_upload": finish_upload,
    "drop_upload": drop_upload,
    "remove": remove,
    "remove_rest": remove_rest,
    "scan": scan,
}
