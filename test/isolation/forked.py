"""Runs a script in the jail of src/isolation/python after a fork, as a zygote does: python forked.py REQUEST-FILE

The request: { host, policy, limits, script, arguments, leave, oldSystem }. Its exit is the supervisor's. The
pid of the supervisor is written to stdout first; with `leave`, a descriptor of that folder is left open at the fork.
"""

import json
import os
import runpy
import sys
import types

with open(sys.argv[1]) as file:
    request = json.load(file)
package = types.ModuleType("_cellwright_jail")
package.__path__ = [request["host"]]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import jail, linux  # noqa: E402

if request.get("oldSystem"):
    # No such call, as before Linux 5.12.
    linux._MOUNT_SETATTR = 100000
if "leave" in request:
    os.set_inheritable(os.open(request["leave"], os.O_RDONLY), True)
told, tell = os.pipe()
pid = os.fork()
if pid == 0:
    os.close(tell)
    os.read(told, 1)  # The script writes to the same stdout, after the pid.
    os.close(told)
    if "policy" in request:
        jail.enter(request["policy"], limits=request.get("limits"))
    sys.argv = [request["script"], *request["arguments"]]
    status = 0
    try:
        runpy.run_path(request["script"], run_name="__main__")
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    sys.stdout.flush()
    os._exit(status)
print(pid, flush=True)
os.close(tell)
os.close(told)
status = os.waitpid(pid, 0)[1]
os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))
