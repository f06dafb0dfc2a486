"""
Cold start of a kernel: `python cold.py REQUEST`, the request as JSON (see BootRequest in cold.ts). The caller sets up
descriptors 0 to 2, the environment and the jail.
"""

import json
import sys
import types

if __name__ == "__main__":
    request = json.loads(sys.argv[1])
    # Python put this folder on the import path, where user code must not find it.
    del sys.path[0]
    # Our files are a package that is not on the user's import path.
    package = sys.modules["_cellwright"] = types.ModuleType("_cellwright")
    package.__path__ = request["folders"]

    from _cellwright import boot

    boot.run(request)
