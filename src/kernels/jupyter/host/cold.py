"""
A kernel that was started for one session: `python cold.py REQUEST`, the request as JSON (see BootRequest in cold.ts).
Descriptors 0 to 2, the environment and the jail are set by whoever starts this.
"""

import json
import sys

request = json.loads(sys.argv[1])
# This folder, which Python put on the import path, is not the user's business.
del sys.path[0]

if __name__ == "__main__":
    sys.path.insert(0, request["hostDir"])
    import package

    sys.path.remove(request["hostDir"])
    package.install(request["preludeDir"], request["hostDir"])

    from _cellwright import boot

    boot.run(request)
