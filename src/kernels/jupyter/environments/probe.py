"""Says what this interpreter is, as one line of JSON. Imports nothing of the environment.

Written so that every Python from 2.7 on can run it: an old one must be able to say that it is old.
"""
import json
import os
import re
import sys

MARK = "cellwright-probe "


def distributions():
    found = {}
    for folder in sys.path:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            match = re.match(r"^(.+?)-(\d[^-]*)(?:-py[\d.]+)?\.(?:dist|egg)-info$", name)
            if match:
                # What comes first on the path is what is imported.
                found.setdefault(re.sub(r"[-_.]+", "-", match.group(1)).lower(), match.group(2))
    return found


def is_importable(name):
    try:
        from importlib.util import find_spec
    except ImportError:
        return False
    return find_spec(name) is not None


facts = {
    "python": sys.executable,
    "prefix": sys.prefix,
    "basePrefix": getattr(sys, "base_prefix", sys.prefix),
    "version": ".".join(str(part) for part in sys.version_info[:3]),
    "path": [folder for folder in sys.path if os.path.isabs(folder)],
    "distributions": distributions(),
    "hasIpykernel": is_importable("ipykernel"),
    "hasPip": is_importable("pip"),
    "isExternallyManaged": os.path.exists(os.path.join(os.path.dirname(os.__file__), "EXTERNALLY-MANAGED")),
}
sys.stdout.write("\n" + MARK + json.dumps(facts) + "\n")
sys.stdout.flush()
