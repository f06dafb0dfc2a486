"""Packages that were found: their dependencies and their bytes."""

import hashlib
import io
import zipfile

from install_failure import Failure, Unreachable
from micropip._vendored.packaging.src.packaging.requirements import Requirement
from micropip._vendored.packaging.src.packaging.utils import canonicalize_name
from micropip.metadata import Metadata, UnsupportedWheel, wheel_dist_info_dir


class Package:
    def __init__(self, name, version, source, file):
        self.name = canonicalize_name(name)
        self.version = str(version)
        self.source = source
        self.file = file
        self.data: bytes | None = None
        self.extras = None
        self.needs = set()
        self.unpacked = []

    async def requires(self, extras):
        """Its dependencies, including those of these extras."""
        raise NotImplementedError

    async def download(self):
        """Ensures that `data` is loaded and has the expected hash."""

    def summary(self):
        assert self.data is not None
        return {
            "name": self.name,
            "version": self.version,
            "source": self.source,
            "file": self.file,
            "sha256": hashlib.sha256(self.data).hexdigest(),
            "requires": sorted(self.needs),
        }


class WheelPackage(Package):
    """From the folder or from the index: its dependencies are in its metadata."""

    def __init__(self, wheel, source, sources, locked):
        super().__init__(wheel.name, wheel.version, source, wheel.filename)
        self._wheel = wheel
        self._sources = sources
        self._locked = locked
        self._metadata = None

    async def requires(self, extras):
        if self._metadata is None:
            self._metadata = await self._read_metadata()
        libraries = [Requirement(name) for name in self._locked["depends"]] if self._locked else []
        return libraries + _required(self._metadata, extras)

    async def download(self):
        if self.data is None:
            self.data = await self._read(self._wheel.url, self._wheel.sha256)

    async def _read_metadata(self):
        known = self._wheel.core_metadata
        if known and self.source == "index":
            expected = known.get("sha256") if isinstance(known, dict) else None
            try:
                return Metadata(await self._read(self._wheel.metadata_url, expected))
            except Failure as failure:
                # Fall back to the metadata in the wheel itself.
                if failure.kind == "hash":
                    raise
        await self.download()
        return metadata_of(self.name, self.data)

    async def _read(self, url, sha256):
        try:
            data, _ = await self._sources.read(url)
        except Unreachable as error:
            raise Failure("index_unreachable", self.name, detail=f"{self.file}: {error}") from None
        if data is None:
            raise Failure("index_unreachable", self.name, detail=f"{self.file} is not where the index says")
        if sha256 and hashlib.sha256(data).hexdigest() != sha256:
            raise Failure("hash", self.name, detail=self.file)
        return data


class LockedPackage(Package):
    """From Pyodide's distribution: its dependencies are in the lock, except those of extras."""

    def __init__(self, locked, data, source):
        super().__init__(locked["name"], locked["version"], source, locked["file_name"])
        self._depends = locked["depends"]
        self.data = data

    async def requires(self, extras):
        depends = [Requirement(name) for name in self._depends]
        if not extras:
            return depends
        metadata = metadata_of(self.name, self.data)
        own = {str(requirement) for requirement in _required(metadata, ())}
        return depends + [extra for extra in _required(metadata, extras) if str(extra) not in own]


def metadata_of(name, data):
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return Metadata(archive.read(f"{wheel_dist_info_dir(archive, name)}/{Metadata.PKG_INFO}"))
    except (zipfile.BadZipFile, UnsupportedWheel, KeyError, ValueError) as error:
        raise Failure("broken", name, detail=str(error)) from None


def _required(metadata, extras):
    known = [extra for extra in extras if _has_extra(metadata, extra)]
    return metadata.requires(known)


def _has_extra(metadata, extra):
    try:
        metadata.requires([extra])
        return True
    except KeyError:
        return False
