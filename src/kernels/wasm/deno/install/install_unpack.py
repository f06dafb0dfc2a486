"""Unpacks packages into the image and compiles them. Never runs a package's code."""

import asyncio
import csv
import importlib.metadata
import importlib.util
import io
import os
import re
import stat
import warnings
import zipfile
from importlib._bootstrap_external import _code_to_hash_pyc  # pyright: ignore[reportAttributeAccessIssue]

from install_failure import Failed, Failure
from install_package import LockedPackage
from micropip._vendored.packaging.src.packaging.utils import canonicalize_name
from micropip._vendored.packaging.src.packaging.version import Version
from pyodide.ffi import to_js

# Tests are a third of some packages and rarely imported. Without bytecode they still import, only slower.
_NOT_COMPILED = {"test", "tests"}
# An archive can claim any size.
_MAX_BYTES = 2 * 1024**3
_SITE = "/site"
# Files between two yields to the event loop, which notices when the server is gone.
_BATCH = 50


def inspect(packages):
    """Checks all archives before anything is unpacked. Raises Failed with all unsafe or broken ones."""
    failures = []
    for package in packages:
        try:
            with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
                for entry in archive.infolist():
                    _inspect(entry, package)
                if sum(entry.file_size for entry in archive.infolist()) > _MAX_BYTES:
                    raise _unsafe(package, "it unpacks to more than 2 GB")
        except zipfile.BadZipFile as error:
            failures.append(Failure("broken", package.name, detail=f"{package.file}: {error}"))
        except Failure as failure:
            failures.append(failure)
    if failures:
        raise Failed(failures)


async def unpack(package, host):
    made = set()

    def write(path, data):
        folder = path.rpartition("/")[0]
        if folder not in made:
            host.mkdir(folder)
            made.add(folder)
        host.write(path, to_js(data))

    try:
        with zipfile.ZipFile(io.BytesIO(package.data)) as archive:
            for number, entry in enumerate(archive.infolist()):
                if number % _BATCH == 0:
                    await asyncio.sleep(0)
                path = None if entry.is_dir() else _moved(entry.filename)
                if path:
                    data = archive.read(entry)
                    write(path, data)
                    package.unpacked.append(path)
                    if path.endswith(".py"):
                        _compile(path, data, write)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise Failed([Failure("broken", package.name, detail=f"{package.file}: {error}")]) from None
    package.data = None


def check(packages):
    """Checks the unpacked files from the Python that will import them."""
    installed = {canonicalize_name(found.name): found for found in importlib.metadata.distributions(path=[_SITE])}
    for package in packages:
        paths = package.unpacked
        # The distribution removes tests from its packages, but not from RECORD. There, the lock's hash is the check.
        if not isinstance(package, LockedPackage):
            found = installed.get(package.name)
            if found is None or Version(found.version) != Version(package.version):
                raise _incomplete(package, "its metadata is missing")
            rows = csv.reader((found.read_text("RECORD") or "").splitlines())
            paths = paths + [path for row in rows if row and (path := _moved(row[0]))]
        for path in paths:
            if not os.path.exists(f"{_SITE}/{path}"):
                raise _incomplete(package, f"{path} is missing")


def _inspect(entry, package):
    name = entry.filename
    parts = name.rstrip("/").split("/")
    if "\\" in name or re.match(r"[A-Za-z]:|/", name) or any(part in ("", ".", "..") for part in parts):
        raise _unsafe(package, f"{name!r} leads out of its folder")
    if any(ord(character) < 32 for character in name):
        raise _unsafe(package, f"{name!r} is not a valid file name")
    kind = stat.S_IFMT(entry.external_attr >> 16)
    if kind not in (0, stat.S_IFREG, stat.S_IFDIR):
        raise _unsafe(package, f"{name!r} is a link or a device")


def _moved(name):
    """The target path in the image; None for members that are not unpacked.

    Of a wheel's `.data` folder only modules are unpacked: scripts and data files have no place here.
    """
    match = re.match(r"[^/]+\.data/([^/]+)/(.+)", name)
    if not match:
        return None if name.startswith("../") else name
    return match[2] if match[1] in ("purelib", "platlib") else None


def _compile(path, data, write):
    folder, _, file = path.rpartition("/")
    if _NOT_COMPILED & set(folder.split("/")):
        return
    try:
        with warnings.catch_warnings(action="ignore"):
            code = compile(data, f"{_SITE}/{path}", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError):
        # Templates, or files for other Python versions: they fail when they are imported, if ever.
        return
    # Unchecked bytecode: the image never changes, so Python need not compare it with the source.
    cached = importlib.util.cache_from_source(file)
    write(f"{folder}/{cached}" if folder else cached, _code_to_hash_pyc(code, importlib.util.source_hash(data), False))


def _unsafe(package, detail):
    return Failure("unsafe", package.name, detail=f"{package.file}: {detail}")


def _incomplete(package, detail):
    return Failed([Failure("broken", package.name, detail=detail)])
