"""
Isolation of a process whose forks build jails of their own, such as a zygote: no network, and of the file system no more
than they need, at its own place. To be entered by a process with one thread, before it imports what is not ours.
"""

import os

from . import landlock, linux, namespaces


def enter(policy):
    """With the Enclosure of enclosure.ts. The process keeps its pid, and its forks theirs."""
    if policy["tier"] == "namespaces":
        namespaces.enclose(policy)
        return
    linux.forbid_new_privileges()
    landlock.enclose(policy)
    if policy.get("seccomp"):
        linux.filter_system_calls(bytes.fromhex(policy["seccomp"]))
    os.chdir("/")
