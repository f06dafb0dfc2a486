"""The sources of packages, in this order: a folder of wheels, Pyodide's distribution, the package index."""

import asyncio
import hashlib
import json
import platform
import re
from urllib.parse import urljoin

from install_failure import Failure, NoConnection, Unreachable
from install_package import LockedPackage, WheelPackage
from micropip._vendored.mousebender.simple import from_project_details_html
from micropip._vendored.packaging.src.packaging.requirements import Requirement
from micropip._vendored.packaging.src.packaging.specifiers import InvalidSpecifier, SpecifierSet
from micropip._vendored.packaging.src.packaging.utils import canonicalize_name
from micropip._vendored.packaging.src.packaging.version import InvalidVersion
from micropip.package_index import DEFAULT_INDEX_URLS, ProjectInfo
from micropip.transaction import find_wheel


class PackageSources:
    """Caches all downloads, so that another round of resolving costs nothing."""

    def __init__(self, host, request, report, ask):
        self._host = host
        self._ask = ask
        self._distribution_url = request["distributionUrl"]
        self._index_url = request.get("indexUrl")
        if self._index_url is None:
            self._index_url = DEFAULT_INDEX_URLS[0]
            report("index", url=self._index_url)
        self._folder = {path.replace("\\", "/").rpartition("/")[2]: path for path in request["folderFiles"]}
        self._locked = _lock()
        # Set after a failed connection: each further attempt would wait for its timeout.
        self._distribution_down = ""
        self._fetched = {}

    async def find(self, name, specifier):
        """The best match of the first source that has one. Raises a Failure that says why there is no match."""
        requirement = Requirement(f"{name}{specifier}")
        wheel = _best_wheel(self._folder_details(name), requirement)
        if wheel:
            return WheelPackage(wheel, "folder", self, self._lock_of_file(wheel.filename))
        locked = self._locked.get(name)
        fits = locked is not None and specifier.contains(locked["version"], prereleases=True)
        obstacle = ""
        if locked and fits:
            try:
                data, source = await self._from_distribution(locked)
            except Unreachable as error:
                obstacle = str(error)
            else:
                return LockedPackage(locked, data, source)
        try:
            details = await self._index_details(name)
        except Unreachable as error:
            kind = "distribution_unreachable" if fits else "index_unreachable"
            raise Failure(kind, name, detail=obstacle if fits else str(error)) from None
        wheel = _best_wheel(details, requirement)
        if wheel:
            return WheelPackage(wheel, "index", self, None)
        if fits:
            raise Failure("distribution_unreachable", name, detail=obstacle)
        raise _no_wheel(name, specifier, details, locked)

    def needed_by(self, name, others):
        """How many of the others depend on this package, according to the distribution's lock."""
        return sum(name in self._all_depends(other) for other in others if other != name)

    async def read(self, url, page=False):
        """The content at an address, and the server's answer about it. Raises Unreachable."""
        if url not in self._fetched:
            self._fetched[url] = asyncio.ensure_future(self._read(url, page))
        return await self._fetched[url]

    async def _read(self, url, page):
        if url.startswith("folder:"):
            return self._host.read(self._folder[url.removeprefix("folder:")]).to_bytes(), {}
        result = await self._ask("fetch", url=url, page=page)
        if result["kind"] != "file":
            raise NoConnection(result["reason"])
        if result["status"] == 404:
            return None, result
        if result["status"] != 200:
            raise Unreachable(f"the server answered with status {result['status']}")
        return self._host.read(result["file"]).to_bytes(), result

    async def _from_distribution(self, locked):
        """The content and its source. Raises Unreachable if the distribution does not have the file."""
        name = locked["file_name"]
        if name in self._folder:
            data, source = (await self.read(f"folder:{name}"))[0], "folder"
        elif self._distribution_down:
            raise Unreachable(self._distribution_down)
        else:
            try:
                data, source = (await self.read(urljoin(self._distribution_url, name)))[0], "distribution"
            except NoConnection as error:
                self._distribution_down = str(error)
                raise
        if data is None:
            raise Unreachable(f"it has no file {name}")
        digest = hashlib.sha256(data).hexdigest()
        if digest != locked["sha256"]:
            raise Failure("hash", canonicalize_name(locked["name"]), detail=name)
        return data, source

    def _all_depends(self, name):
        seen, todo = set(), [name]
        while todo:
            depends = {canonicalize_name(other) for other in self._locked.get(todo.pop(), {}).get("depends", ())}
            todo += depends - seen
            seen |= depends
        return seen

    def _folder_details(self, name):
        wheels = [file for file in self._folder if file.endswith(".whl") and _name_of(file) == name]
        return {"name": name, "files": [{"filename": file, "url": f"folder:{file}", "hashes": {}} for file in wheels]}

    def _lock_of_file(self, file):
        """A file of the distribution that was copied into the folder keeps its dependencies from the lock."""
        return next((locked for locked in self._locked.values() if locked["file_name"] == file), None)

    async def _index_details(self, name):
        data, answer = await self.read(f"{self._index_url.rstrip('/')}/{name}/", page=True)
        if data is None:
            return {"name": name, "files": []}
        kind = answer["contentType"].partition(";")[0].strip().lower()
        text = data.decode("utf-8", "replace")
        try:
            details = json.loads(text) if kind.endswith("json") else from_project_details_html(text, name)
            files = [{**file, "hashes": file.get("hashes") or {}} for file in details["files"]]
        except (ValueError, KeyError, TypeError):
            raise Unreachable("the answer is not a page of a package index") from None
        for file in files:
            file["url"] = urljoin(answer["url"], file["url"])
        return {"name": name, "files": files, "versions": details.get("versions") or []}


def _lock():
    from pyodide_js._api import lockfile_packages

    packages = lockfile_packages.to_py()
    return {canonicalize_name(name): package for name, package in packages.items()}


def _best_wheel(details, requirement):
    """micropip's choice among the files for this Python version, which micropip itself does not check."""
    files = [file for file in details["files"] if _suits_python(file)]
    try:
        return find_wheel(ProjectInfo.from_simple_json_api({**details, "files": files, "versions": []}), requirement)
    except ValueError:
        return None


def _suits_python(file):
    try:
        return SpecifierSet(file.get("requires-python") or "").contains(platform.python_version(), prereleases=True)
    except InvalidSpecifier:
        return True


def _no_wheel(name, specifier, details, locked):
    if not details["files"]:
        return Failure("not_found", name, detail=_only_version(locked))
    versions = set(details.get("versions", ())) or {_version_of(file["filename"], name) for file in details["files"]}
    has_version = any(_fits(specifier, version) for version in versions)
    return Failure("no_wheel" if has_version else "no_version", name, detail=_only_version(locked))


def _fits(specifier, version):
    try:
        return bool(version) and specifier.contains(version, prereleases=True)
    except InvalidVersion:
        return False


def _only_version(locked):
    return f"Pyodide's distribution has {locked['version']}" if locked else ""


def _name_of(wheel):
    return canonicalize_name(wheel.partition("-")[0])


def _version_of(file, name):
    """The version in the file name of a wheel or of a source archive; empty without one."""
    if file.endswith(".whl"):
        return file.split("-")[1]
    match = re.fullmatch(r"(.+)-(\d[^-]*?)\.(?:tar\.\w+|zip|tgz)", file)
    return match[2] if match and canonicalize_name(match[1]) == name else ""
