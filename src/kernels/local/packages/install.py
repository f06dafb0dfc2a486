"""Installs packages into a folder, with the environment's pip, or with uv if it has no usable pip.

    python -I install.py REQUEST

Packages of the environment and of the session count as installed and are left unchanged. Only wheels are installed: no
code of a package runs. The last line of the output is the result, as JSON.
"""

import json
import os
import re
import signal
import subprocess
import sys
from importlib import metadata, util

RESULT = "cellwright-result "
# The first pip with `--dry-run --report`.
_OLDEST_PIP = (22, 2)

# pip that also sees the session's packages as installed, after the standard library and before the environment's.
# pip itself is imported first, so that the session's packages cannot replace it.
_PIP = """
import os, runpy, sys
import pip
overlay = sys.argv.pop(1)
places = [i for i, folder in enumerate(sys.path) if folder.endswith(("site-packages", "dist-packages"))]
sys.path.insert(places[0] if places else len(sys.path), overlay)
runpy.run_module("pip", run_name="__main__", alter_sys=True)
"""


class Failed(Exception):
    pass


class Pip:
    def __init__(self, request):
        self._request = request
        self._folder = request["folder"]

    def resolve(self):
        report = os.path.join(self._folder, "report.json")
        upgrade = ["--upgrade"] if self._request["upgrade"] else []
        self._run(["--dry-run", "--report", report, *upgrade, "--", *self._request["requirements"]])
        with open(report, encoding="utf-8") as file:
            found = json.load(file)["install"]
        return [(item["metadata"]["name"], item["metadata"]["version"]) for item in found]

    def install(self, packages, target):
        self._run(["--no-deps", "--target", target, "--", *packages])

    def _run(self, words):
        request = self._request
        urls = request["indexUrls"]
        places = ["--index-url", urls[0]] if urls else ["--no-index"]
        places += [word for url in urls[1:] for word in ("--extra-index-url", url)]
        places += [word for folder in request["folders"] for word in ("--find-links", folder)]
        quiet = ["--quiet", "--no-input", "--no-color", "--disable-pip-version-check", "--progress-bar", "off"]
        cache = ["--cache-dir", os.path.join(self._folder, "cache"), "--retries", "0", "--timeout", "60"]
        command = [sys.executable, "-I", "-c", _PIP, request["overlay"], "install", *quiet, *cache]
        run([*command, "--only-binary", ":all:", *places, *words])


class Uv:
    def __init__(self, request):
        self._request = request
        self._folder = request["folder"]

    def resolve(self):
        request = self._request
        named = {name_of(requirement) for requirement in request["requirements"]}
        upgrade = [word for name in sorted(named) for word in ("--upgrade-package", name)] if request["upgrade"] else []
        words = ["--dry-run", "--break-system-packages", *upgrade]
        own = {name: version for name, version in versions([request["overlay"]]).items() if name not in named}
        try:
            return self._resolve([*words, *self._keeping(own)])
        except Failed:
            if not own:
                raise
            # The session's versions conflict with the request: let them change.
            return self._resolve(words)

    def install(self, packages, target):
        self._run(["--no-deps", "--compile-bytecode", "--target", target], packages)

    def _resolve(self, words):
        said = self._run(words, self._request["requirements"])
        return re.findall(r"^ \+ ([^\s=]+)==(\S+)", said, re.MULTILINE)

    def _keeping(self, own):
        """Pins the session's packages, which uv does not see."""
        file = os.path.join(self._folder, "constraints.txt")
        with open(file, "w", encoding="utf-8") as lines:
            lines.writelines(f"{name}=={version}\n" for name, version in own.items())
        return ["--constraint", file]

    def _run(self, words, requirements):
        request = self._request
        urls = request["indexUrls"]
        places = ["--default-index", urls[0]] if urls else ["--no-index"]
        places += [word for url in urls[1:] for word in ("--index", url)]
        # By default, a package comes from the first index that has it, and extra indexes come before the main one. This
        # prevents dependency confusion: a newer version of a company's package on a public index is ignored.
        places += ["--index-strategy", request["indexStrategy"]]
        places += [word for folder in request["folders"] for word in ("--find-links", folder)]
        options = ["--python", sys.executable, "--no-python-downloads", "--no-config", "--color", "never"]
        cache = ["--cache-dir", os.path.join(self._folder, "cache"), "--link-mode", "hardlink"]
        command = [request["uv"], "pip", "install", *options, *cache, "--no-progress", "--only-binary", ":all:"]
        return run([*command, *places, *words, "--", *requirements])


def run(command):
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True)
    said = (done.stdout + done.stderr).decode(errors="replace")
    if done.returncode == -signal.SIGXFSZ:
        # Python ignores SIGXFSZ and gets an error; other programs are killed by it without a message.
        raise Failed(said + "File too large")
    if done.returncode != 0:
        raise Failed(said)
    return said


def installer(request):
    version = versions(sys.path).get("pip", "0") if util.find_spec("pip") else None
    if version is not None and tuple(int(part) for part in re.findall(r"\d+", version)[:2]) >= _OLDEST_PIP:
        return Pip(request)
    if request["uv"]:
        return Uv(request)
    return None


def versions(path):
    """Versions by normalized name. The first on the path wins, as for imports."""
    found = {}
    for distribution in metadata.distributions(path=path):
        name = distribution.metadata["Name"]
        if name:
            found.setdefault(name_of(name), distribution.version)
    return found


def modules_in(folder):
    """The importable modules of each package in the folder, by normalized name."""
    found = {}
    for distribution in metadata.distributions(path=[folder]):
        tops = {
            file.parts[0].partition(".")[0] for file in distribution.files or [] if ".dist-info" not in file.parts[0]
        }
        found[name_of(distribution.metadata["Name"])] = sorted(top for top in tops if top.isidentifier())
    return found


def name_of(requirement):
    name = re.match(r"[A-Za-z0-9._-]*", requirement)
    assert name  # Matches the empty string, too.
    return re.sub(r"[-_.]+", "-", name.group()).lower()


def install(request):
    tool = installer(request)
    if tool is None:
        return {"failure": "no-installer"}
    overlay, target = request["overlay"], os.path.join(request["folder"], "site")
    own = versions([overlay])
    wanted = [(name, version) for name, version in tool.resolve() if own.get(name_of(name)) != version]
    if wanted:
        tool.install([f"{name}=={version}" for name, version in wanted], target)
    installed, before = versions([target]), versions(sys.path)
    after = {**before, **own, **installed}
    asked = [name_of(requirement) for requirement in request["requirements"]]
    names = dict.fromkeys([*asked, *installed])
    modules = modules_in(target)
    return {
        "packages": [
            {"name": name, "version": after[name], "modules": modules.get(name, [])} for name in names if name in after
        ],
        "replaced": [name for name in installed if name in before],
    }


if __name__ == "__main__":
    try:
        result = install(json.loads(sys.argv[1]))
    except Failed as failure:
        result = {"failure": "said", "said": str(failure)[-20_000:]}
    print("\n" + RESULT + json.dumps(result))
