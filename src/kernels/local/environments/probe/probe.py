"""
Describes this interpreter as one line of JSON, without running code of its environment. It is started with `-E -s -S`,
so that no start-up file of the environment runs, and computes the import path itself.

Runs on every Python since 2.7: an old one must be able to report its version.
"""
# ruff: noqa: E402, UP024, UP036

import sys

# For a script on stdin, Python puts the working directory on the path.
sys.path[:] = [folder for folder in sys.path if folder]

import json
import os
import re

MARK = "cellwright-probe "
# A hostile environment may contain any number of entries.
MOST = 1000


def virtual_environment():
    """Found as in site.py: pyvenv.cfg beside the interpreter or one folder above."""
    bin_folder = os.path.dirname(os.path.abspath(sys.executable))
    for folder in (bin_folder, os.path.dirname(bin_folder)):
        try:
            with open(os.path.join(folder, "pyvenv.cfg")) as file:
                lines = file.read(100000).splitlines()
        except (OSError, IOError, UnicodeDecodeError):
            continue
        settings = dict([part.strip() for part in line.split("=", 1)] for line in lines if "=" in line)
        shares = settings.get("include-system-site-packages", "true").lower() != "false"
        return os.path.dirname(bin_folder), shares
    return None


def package_folders():
    if sys.version_info < (3, 3):
        # In these versions, importing `site` runs it.
        return []
    import site

    base = [sys.prefix, sys.exec_prefix]
    found = virtual_environment()
    if found is None:
        return site.getsitepackages(list(dict.fromkeys(base)))
    prefix, shares = found
    # Debian's site.py recognizes a virtual environment by these.
    sys.prefix = sys.exec_prefix = prefix
    return site.getsitepackages([prefix] + (list(dict.fromkeys(base)) if shares else []))


def read_pth_files(folder):
    """Folders from plain lines, absolute paths in the modules that `import` lines would run, and the files."""
    folders, places, files = [], [], []
    for name in sorted(names_in(folder)):
        if not name.endswith(".pth") or name.startswith("."):
            continue
        files.append(os.path.join(folder, name))
        for line in text_of(files[-1]).splitlines():
            if line.startswith(("import ", "import\t")):
                for module in re.findall(r"\w+", line)[1:2]:
                    text = text_of(os.path.join(folder, module + ".py"))
                    places.extend(re.findall(r"['\"](/[^'\"\n]+)['\"]", text)[:MOST])
            elif line.strip() and not line.startswith("#"):
                # Not checked for existence: this process may see less than a kernel does.
                folders.append(os.path.abspath(os.path.join(folder, line.rstrip())))
    return folders, places, files


def names_in(folder):
    try:
        return os.listdir(folder)[: 50 * MOST]
    except OSError:
        return []


def text_of(path):
    try:
        with open(path, "rb") as file:
            return file.read(1000000).decode("utf-8", "replace")
    except (OSError, IOError):
        return ""


def distributions(path):
    found = {}
    for folder in path:
        for name in names_in(folder):
            match = re.match(r"^([\w.-]+?)-(\d[\w.!+]*)(?:-py[\d.]+)?\.(?:dist|egg)-info$", name)
            if match and len(found) < MOST:
                # The first on the path wins, as for imports.
                found.setdefault(re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2))
    return found


def is_importable(name, path):
    try:
        from importlib.machinery import PathFinder

        return PathFinder.find_spec(name, path) is not None
    except (ImportError, AttributeError):
        return False


def main():
    base_prefix = getattr(sys, "base_prefix", sys.prefix)
    path = [folder for folder in sys.path if os.path.isabs(folder)]
    places, files = [], []
    for folder in package_folders():
        if os.path.isdir(folder) and folder not in path:
            path.append(folder)
            folders, named, read = read_pth_files(folder)
            path.extend(each for each in folders if each not in path)
            places.extend(named)
            files.extend(read)
    facts = {
        "python": sys.executable,
        "prefix": sys.prefix,
        "basePrefix": base_prefix,
        "version": ".".join(str(part) for part in sys.version_info[:3]),
        "path": path[:MOST],
        "places": sorted(set(places))[:MOST],
        "pathFiles": files[:MOST],
        "distributions": distributions(path),
        "hasIpykernel": is_importable("ipykernel", path),
        "hasPip": is_importable("pip", path),
        "isExternallyManaged": os.path.exists(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED")),
    }
    sys.stdout.write("\n" + MARK + json.dumps(facts) + "\n")
    sys.stdout.flush()


main()
