"""Copies of sessions in `{notebooks}/.cellwright/{session}/`. Called by `remote/history/`."""

import base64
import contextlib
import hashlib
import json
import os
import re
import stat

import helper_removal
from helper_instances import is_alive, locked, this_server
from helper_state import read_json, replace, state_entries, state_path, write_at
from helper_walk import SESSION_ID, TEMPORARY, Folder, Refusal, make_private, notebooks_folder

_NAME = r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}"
KEPT = re.compile(r"(session\.json|journal\.ndjson|outputs/%s|run/%s\.json)\Z" % (_NAME, _NAME))
FOLDERS = ("", "outputs/", "run/")
# Our own folders beside those of sessions. A session of that name gets a dot, which no session id has.
RESERVED = ("instances", "kernels", "uploads", "trash")


def look(again, notebooks, session, journal_bytes):
    """Sizes of the existing files, and the hash of as much of the journal as the caller has."""
    top = _folder(notebooks, session)
    files = {}
    for folder in FOLDERS:
        for entry in state_entries(top, folder):
            path = folder + entry.name
            if KEPT.match(path) and entry.is_file(follow_symlinks=False):
                files[path] = entry.stat(follow_symlinks=False).st_size
    has_journal = "journal.ndjson" in files
    journal = _hash_of_start(os.path.join(top, "journal.ndjson"), journal_bytes) if has_journal else None
    return {"files": files, "journal": journal}


def _hash_of_start(path, length):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while length > 0:
            piece = file.read(min(length, 1 << 20))
            if not piece:
                break
            digest.update(piece)
            length -= len(piece)
    return digest.hexdigest()


def put(again, notebooks, session, holder, pieces, run):
    """
    Pieces with an offset are written there, others replace the whole file. `run` names the files of that folder that
    still exist. `holder` identifies the caller; fails if another live instance holds the session.
    """
    with locked(notebooks):
        _take(notebooks, session, holder)
    for piece in pieces:
        path = _kept_path(notebooks, session, piece["path"])
        data = base64.b64decode(piece["data"])
        make_private(os.path.dirname(path))
        if "offset" in piece:
            write_at(path, piece["offset"], data)
        else:
            replace(path, data)
    for entry in state_entries(_folder(notebooks, session), "run"):
        if entry.name not in run:
            os.unlink(entry.path)


def put_aside(again, notebooks, session):
    """Renames a journal that is not a prefix of the caller's, so that it is kept and the caller's can be written."""
    top = _folder(notebooks, session)
    number = 1
    while os.path.lexists(os.path.join(top, "journal.%d.ndjson" % number)):
        number += 1
    with contextlib.suppress(FileNotFoundError):
        os.rename(os.path.join(top, "journal.ndjson"), os.path.join(top, "journal.%d.ndjson" % number))


def get(again, notebooks, session, path, offset, length):
    fd = os.open(_kept_path(notebooks, session, path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            raise Refusal("bug", what="not an ordinary file")
        return {"bytes": base64.b64encode(os.pread(fd, length, offset)).decode()}
    finally:
        os.close(fd)


def list_free(again, notebooks):
    """Sessions that no live instance holds."""
    return [
        session
        for session in map(_session_of, state_entries(state_path(notebooks)))
        if session is not None
        and os.path.lexists(os.path.join(_folder(notebooks, session), "session.json"))
        and not _is_held(notebooks, session, {})
    ]


def take(again, notebooks, session, holder):
    """Whether the caller may use the session. A session without a copy here is free."""
    if not os.path.isdir(_folder(notebooks, session)):
        return True
    with locked(notebooks):
        try:
            _take(notebooks, session, holder)
        except Refusal:
            return False
    return True


def _take(notebooks, session, holder):
    """Called under the lock: of two concurrent callers, one gets it."""
    if _is_held(notebooks, session, holder):
        raise Refusal("in_use")
    path = os.path.join(_folder(notebooks, session), "holder")
    if read_json(path) != holder:
        make_private(os.path.dirname(path))
        replace(path, json.dumps(holder).encode())


def _is_held(notebooks, session, asker):
    """Whether another live instance holds it. The same token means the same folder, after a restart."""
    holder = read_json(os.path.join(_folder(notebooks, session), "holder"))
    if not holder or holder.get("token") == asker.get("token"):
        return False
    return is_alive(notebooks, holder.get("instance"))


def forget(again, notebooks, session):
    """Removes a session's files and its copy. True: call again, there is more to remove."""
    home = notebooks_folder(notebooks)
    kept = _folder(notebooks, session)
    if os.path.lexists(os.path.join(home, session.encode())) or os.path.lexists(kept):
        make_private(state_path(notebooks, "trash"))
        with locked(notebooks), _trash(notebooks) as trash:
            for path in (os.path.join(home, session.encode()), os.fsencode(kept)):
                with Folder(os.path.dirname(path)) as folder:
                    helper_removal.take_away(folder, os.path.basename(path), trash)
    with contextlib.suppress(FileNotFoundError), _trash(notebooks) as trash:
        for name, _ in trash.entries():
            # Servers that share a disk share the trash, too.
            with contextlib.suppress(FileNotFoundError):
                if not helper_removal.empty(trash, name):
                    return True
    return False


def _trash(notebooks):
    return Folder(state_path(notebooks, "trash"))


def _folder(notebooks, session):
    if not SESSION_ID.match(session):
        raise Refusal("bug", what="no session id")
    return state_path(notebooks, session + "." if session in RESERVED else session)


def _session_of(entry):
    name = entry.name
    if name in RESERVED or not entry.is_dir(follow_symlinks=False):
        return None
    session = name[:-1] if name[:-1] in RESERVED else name
    return session if SESSION_ID.match(session) else None


def _kept_path(notebooks, session, path):
    if not KEPT.match(path):
        raise Refusal("bug", what="not a file that is kept")
    return os.path.join(_folder(notebooks, session), path)


def _is_over(notebooks, session):
    """Whether a session has ended or is unknown here. An unreadable record does not count as ended."""
    path = os.path.join(_folder(notebooks, session), "session.json")
    return not os.path.lexists(path) or bool((read_json(path) or {}).get("endedAt"))


def kernel_marks(again, notebooks):
    """Kernels of this server that a Cellwright started, and whether they are orphans."""
    marks = []
    for entry in state_entries(state_path(notebooks, "kernels")):
        mark = read_json(entry.path)
        if mark is None or TEMPORARY.match(entry.name.encode()) or mark.get("server") != this_server():
            continue
        session = mark.get("session")
        marks.append(
            {
                "kernel": entry.name,
                "alive": is_alive(notebooks, mark.get("instance")),
                "over": session is None or _is_over(notebooks, session),
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
