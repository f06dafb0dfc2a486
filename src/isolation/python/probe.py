"""
Tests what this Python can do: python -I -S -B probe.py abi | jail REQUEST

`abi` prints the version of Landlock, 0 without it. `jail` enters the jail of a request (`jailRequest` of policy.ts) and
exits; with status 1 and the reason if that fails.
"""

import json
import os
import sys
import types

package = types.ModuleType("_cellwright_jail")
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import jail, linux  # noqa: E402

if sys.argv[1] == "abi":
    print(linux.landlock_abi())
else:
    try:
        jail.enter(json.loads(sys.argv[2]))
    except OSError as error:
        sys.exit(str(error))
    os._exit(0)
