"""
Isolation of a process whose forks build their own jails, such as a zygote: no network, and only the files that they
need, at their own paths. To be entered by a single-threaded process before it imports third-party code.
"""

import os

from . import landlock, linux, namespaces


def enter(policy):
    """Takes the Enclosure of enclosure.ts. Pids do not change, neither of this process nor of its forks."""
    if policy["tier"] == "namespaces":
        namespaces.enclose(policy["namespaces"])
        return
    linux.forbid_new_privileges()
    landlock.restrict(policy["landlock"])
    if policy.get("seccomp"):
        linux.filter_system_calls(bytes.fromhex(policy["seccomp"]))
    os.chdir("/")
