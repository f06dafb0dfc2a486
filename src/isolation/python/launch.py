"""
Starts a program in a jail without bubblewrap: python -I -S -B launch.py REQUEST-FD INFO-FD COMMAND…

The request is JSON: { policy, limits, descriptors, dieWithParent }; `descriptors` is how many the program gets, from 0
on. The pid of the jail's first process is reported on INFO-FD, as bubblewrap does. This process stays as the
supervisor; see jail.py.
"""

import json
import os
import signal
import sys
import types

package = types.ModuleType("_cellwright_jail")
package.__path__ = [os.path.dirname(os.path.abspath(__file__))]
sys.modules["_cellwright_jail"] = package
from _cellwright_jail import jail  # noqa: E402


def main():
    request_fd, info_fd = int(sys.argv[1]), int(sys.argv[2])
    command = sys.argv[3:]
    with open(request_fd, encoding="utf-8") as file:
        request = json.load(file)
    passed_fds = tuple(range(3, request["descriptors"]))

    def report(first):
        os.write(info_fd, json.dumps({"child-pid": first}).encode())

    jail.enter(
        request["policy"],
        limits=request.get("limits"),
        keep_fds=(*passed_fds, info_fd),
        report_first=report,
        die_with_parent=request["dieWithParent"],
    )
    os.close(info_fd)
    # Python ignores these; its children must not.
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(command[0], command)
    except OSError as error:
        sys.exit("%s: %s" % (command[0], error.strerror))


main()
