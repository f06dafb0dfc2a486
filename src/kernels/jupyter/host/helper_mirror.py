"""What is kept of sessions: a copy in `{notebooks}/.cellwright/{session}/`. See `remote/mirror.ts`, which asks."""

import base64
import contextlib
import hashlib
import json
import os
import re
import stat

import helper_removal
from helper_files import write_all
from helper_instances import is_alive, locked, read_mark, state_folder, state_path, this_server
from helper_walk import SESSION_ID, Folder, Refusal, make_private, notebooks_folder, temporary_name

_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"
KEPT = re.compile(r"(session\.json|journal\.ndjson|outputs/%s|run/%s\.json)\Z" % (_NAME, _NAME))
FOLDERS = (b"outputs", b"run")
# Folders of our own beside those of sessions. A session of that name gets a dot, which no session's id has.
RESERVED = ("instances", "kernels", "uploads", "trash")


def look(again, notebooks, session, journal_bytes):
    """Sizes of the files that are there, and the hash of as much of the journal as the asker has."""
    files = {}
    with contextlib.suppress(FileNotFoundError), _open(notebooks, session) as top:
        _add_sizes(files, top, "")
        for name in FOLDERS:
            with contextlib.suppress(FileNotFoundError), top.enter(name) as inside:
                _add_sizes(files, inside, name.decode() + "/")
        return {"files": files, "journal": _hash_of_start(top, b"journal.ndjson", journal_bytes)}
    return {"files": files, "journal": None}


def _add_sizes(files, folder, prefix):
    for name, is_folder in folder.entries():
        path = prefix + name.decode("utf-8", "replace")
        stats = None if is_folder or not KEPT.match(path) else folder.look(name)
        if stats and stat.S_ISREG(stats.st_mode):
            files[path] = stats.st_size


def _hash_of_start(folder, name, length):
    digest = hashlib.sha256()
    try:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.fd)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        while length > 0:
            piece = file.read(min(length, 1 << 20))
            if not piece:
                break
            digest.update(piece)
            length -= len(piece)
    return digest.hexdigest()


def put(again, notebooks, session, holder, pieces, run):
    """
    Pieces with an offset go to that place of their file, others are the whole file. `run` names the files of that
    folder that are still there. `holder` is who has the session; another live one is not disturbed.
    """
    with locked(notebooks):
        _take(notebooks, session, holder)
    with _open(notebooks, session, create=True) as top:
        for piece in pieces:
            if not KEPT.match(piece["path"]):
                raise Refusal("bug", what="not a file that is kept")
            *above, name = piece["path"].encode().split(b"/")
            with _inside(top, above) as folder:
                _put_piece(folder, name, piece.get("offset"), base64.b64decode(piece["data"]))
        with contextlib.suppress(FileNotFoundError), top.enter(b"run") as folder:
            for name, _ in folder.entries():
                if name.decode("utf-8", "replace") not in run:
                    os.unlink(name, dir_fd=folder.fd)


@contextlib.contextmanager
def _inside(top, above):
    if not above:
        yield top
        return
    top.make(above[0])
    with top.enter(above[0]) as folder:
        yield folder


def _put_piece(folder, name, offset, data):
    if offset is None:
        _replace(folder, name, data)
        return
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600, dir_fd=folder.fd)
    try:
        if os.fstat(fd).st_size < offset:
            raise Refusal("gap")
        os.lseek(fd, offset, os.SEEK_SET)
        write_all(fd, data)
    finally:
        os.close(fd)


def _replace(folder, name, data):
    temporary = temporary_name()
    fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=folder.fd)
    try:
        try:
            write_all(fd, data)
        finally:
            os.close(fd)
        os.rename(temporary, name, src_dir_fd=folder.fd, dst_dir_fd=folder.fd)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=folder.fd)
        raise


def put_aside(again, notebooks, session):
    """Keeps a journal that is not the beginning of the asker's, under another name, and makes room for that one."""
    with contextlib.suppress(FileNotFoundError), _open(notebooks, session) as top:
        number = 1
        while top.look(b"journal.%d.ndjson" % number):
            number += 1
        os.rename(b"journal.ndjson", b"journal.%d.ndjson" % number, src_dir_fd=top.fd, dst_dir_fd=top.fd)


def get(again, notebooks, session, path, offset, length):
    if not KEPT.match(path):
        raise Refusal("bug", what="not a file that is kept")
    *above, name = path.encode().split(b"/")
    with _open(notebooks, session) as top, contextlib.ExitStack() as held:
        folder = held.enter_context(top.enter(above[0])) if above else top
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder.fd)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Refusal("bug", what="not an ordinary file")
        return {"bytes": base64.b64encode(os.pread(fd, length, offset)).decode()}
    finally:
        os.close(fd)


def list_free(again, notebooks):
    """Sessions that no live program has."""
    free = []
    with contextlib.suppress(FileNotFoundError), state_folder(notebooks) as top:
        for name, is_folder in top.entries():
            session = _session_of(name)
            if not is_folder or session is None:
                continue
            with contextlib.suppress(FileNotFoundError), top.enter(name) as folder:
                if folder.look(b"session.json") and not _is_held(notebooks, folder, {}):
                    free.append(session)
    return free


def take(again, notebooks, session, holder):
    """Whether the asker may use the session. One that is not here is nobody's."""
    if not os.path.isdir(state_path(notebooks, _folder_name(session))):
        return True
    with locked(notebooks):
        try:
            _take(notebooks, session, holder)
        except Refusal:
            return False
    return True


def _take(notebooks, session, holder):
    """Under the lock: of two who ask at the same time, one gets it."""
    with _open(notebooks, session, create=True) as folder:
        if _is_held(notebooks, folder, holder):
            raise Refusal("in_use")
        if _read_holder(folder) != holder:
            _replace(folder, b"holder", json.dumps(holder).encode())


def _is_held(notebooks, folder, asker):
    """By another live program. Whoever has the same token has the same folder, on the disk where it began."""
    holder = _read_holder(folder)
    if not holder or holder.get("token") == asker.get("token"):
        return False
    return is_alive(notebooks, holder.get("instance"))


def _read_holder(folder):
    try:
        fd = os.open(b"holder", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.fd)
    except FileNotFoundError:
        return None
    with open(fd, "rb") as file:
        try:
            holder = json.loads(file.read(10_000))
        except ValueError:
            return None
    return holder if isinstance(holder, dict) else None


def forget(again, notebooks, session):
    """Removes all that is here of a session: its files and what is kept of it. True: there is more to do."""
    if not SESSION_ID.match(session):
        raise Refusal("bug", what="no session id")
    try:
        home = Folder(notebooks_folder(notebooks))
    except FileNotFoundError:
        return False
    with home:
        if not home.look(session.encode()) and not _is_kept(home, session):
            return _empty_trash(notebooks)
        make_private(state_path(notebooks, b"trash"))
        with locked(notebooks), state_folder(notebooks) as state, state.enter(b"trash") as trash:
            helper_removal.take_away(home, session.encode(), trash)
            helper_removal.take_away(state, _folder_name(session), trash)
    return _empty_trash(notebooks)


def _is_kept(home, session):
    with contextlib.suppress(FileNotFoundError), home.enter(b".cellwright") as state:
        return state.look(_folder_name(session)) is not None
    return False


def _empty_trash(notebooks):
    with contextlib.suppress(FileNotFoundError), state_folder(notebooks) as state, state.enter(b"trash") as trash:
        for name, _ in trash.entries():
            # Servers that share a disk share this, too.
            with contextlib.suppress(FileNotFoundError):
                if not helper_removal.empty(trash, name):
                    return True
    return False


def _folder_name(session):
    if not SESSION_ID.match(session):
        raise Refusal("bug", what="no session id")
    return (session + "." if session in RESERVED else session).encode()


def _session_of(name):
    text = name.decode("utf-8", "replace")
    if text in RESERVED:
        return None
    session = text[:-1] if text[:-1] in RESERVED else text
    return session if SESSION_ID.match(session) and _folder_name(session) == name else None


def _open(notebooks, session, create=False):
    path = state_path(notebooks, _folder_name(session))
    if create:
        make_private(path)
    return Folder(path)


def is_over(notebooks, session):
    """Whether a session has ended, or nothing is known of it here."""
    try:
        with _open(notebooks, session) as folder:
            fd = os.open(b"session.json", os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder.fd)
        with open(fd, "rb") as file:
            return bool(json.loads(file.read(1_000_000)).get("endedAt"))
    except FileNotFoundError:
        return True
    except (ValueError, AttributeError):
        # Unreadable, not over.
        return False


def kernel_marks(again, notebooks):
    """Kernels of this server that a program of ours started, and whether anybody wants them."""
    marks = []
    with contextlib.suppress(FileNotFoundError), state_folder(notebooks) as state, state.enter(b"kernels") as folder:
        for name, _ in folder.entries():
            mark = read_mark(folder, name)
            if mark is None or mark.get("server") != this_server():
                continue
            session = mark.get("session")
            marks.append(
                {
                    "kernel": name.decode("ascii", "replace"),
                    "alive": is_alive(notebooks, mark.get("instance")),
                    "over": session is None or is_over(notebooks, session),
                }
            )
    return marks


OPERATIONS = {
    "mirror_look": look,
    "mirror_put": put,
    "mirror_put_aside": put_aside,
    "mirror_get": get,
    "mirror_list": list_free,
    "mirror_take": take,
    "forget": forget,
    "kernel_marks": kernel_marks,
}
