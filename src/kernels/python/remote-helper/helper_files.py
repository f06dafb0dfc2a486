"""File operations of a session: list, read, write, remove, scan. Called by `remote/files/workspace.ts`."""

import base64
import contextlib
import errno
import os
import re
import stat
import time

import helper_removal
from helper_state import remove_file, remove_stale, state_path, write_all, write_at
from helper_walk import (
    GONE,
    MAX_DEPTH,
    TEMPORARY,
    Folder,
    Refusal,
    missing,
    opened,
    ordinary,
    outside,
    session_root,
    shown,
    temporary_name,
)

# Maximum number of names sorted per folder. A larger folder is listed partly, in the disk's order.
MAX_SORTED = 10_000
# Maximum number of entries in a scan, which runs for every cell.
MAX_ENTRIES = 10_000
# Minimum distance of two changes for a file's times to differ (see src/workspace/local/read.ts).
TICK_NS = 12_000_000
# Age of an abandoned upload.
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
    """The path's names with links resolved."""
    with opened(session_root(notebooks, session), names) as place:
        return [name.decode("utf-8", "replace") for name in place.names]


def _list_inside(folder, prefix, depth, entries, recursive, limit):
    """False if entries were left out."""
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
        # It was removed or replaced meanwhile, or a cell took its permissions away.
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
    """A piece of a file, with a signature that changes with the file."""
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
    # A time in the future means that the clock was set back, not that the file is changing.
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
    """Writes a whole file atomically."""
    content = base64.b64decode(data)

    def fill(fd):
        write_all(fd, content)

    return _put_in_place(notebooks, session, names, fill)


def upload(again, notebooks, upload, offset, data):
    """Stores a piece of a file that is too large for one message, until it is complete."""
    path = _upload_path(notebooks, upload)
    remove_stale(os.path.dirname(path), STALE_UPLOAD_SECONDS)
    write_at(path, offset, base64.b64decode(data))


def finish_upload(again, notebooks, session, names, upload, size):
    path = _upload_path(notebooks, upload)
    if not os.path.lexists(path):
        raise Refusal("gap")
    with open(path, "rb") as source:
        if os.fstat(source.fileno()).st_size != size:
            raise Refusal("gap")

        def fill(fd):
            while True:
                piece = source.read(1 << 20)
                if not piece:
                    return
                write_all(fd, piece)

        written = _put_in_place(notebooks, session, names, fill)
    remove_file(path)
    return written


def drop_upload(again, notebooks, upload):
    remove_file(_upload_path(notebooks, upload))


def _upload_path(notebooks, upload):
    if not UPLOAD.match(upload):
        raise Refusal("bug", what="no name of an upload")
    return state_path(notebooks, "uploads", upload)


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
                fill(fd)
                # An edited script stays executable.
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


def remove(again, notebooks, session, names):
    """Returns the folder that still has to be emptied, if that takes longer."""
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
    """Continues a removal. `names` is the path of the folder that contains it."""
    name = doomed.encode()
    if not TEMPORARY.match(name):
        raise Refusal("bug", what="not a removal under way")
    try:
        with opened(session_root(notebooks, session), names) as place, place.folder.enter(place.name) as folder:
            return {"doomed": _emptied(folder, name if folder.look(name) else None)}
    except FileNotFoundError:
        # A cell moved the parent folder away meanwhile.
        return {"doomed": None}


def _emptied(folder, doomed):
    if doomed is None or helper_removal.empty(folder, doomed):
        return None
    return doomed.decode()


def scan(again, notebooks, session):
    """Regular files with signatures that change with the files. Sizes are actual disk usage."""
    picture = _Picture()
    try:
        root = Folder(session_root(notebooks, session))
    except OSError as error:
        # A scan must not fail because of a cell: a removed workspace is empty, a replaced one is skipped.
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
            # A folder that a cell removes or replaces meanwhile is skipped.
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
            # A cell may have taken a folder's permissions away; the rest is still scanned.
            self.complete = False
        return folders


def _signature(stats):
    """The size is first, where `compare` of src/workspace reads it."""
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
