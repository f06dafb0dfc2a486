"""
A process enters a jail: after a fork, or in launch.py before it starts a program. Standard library only; Linux.

The files of this folder are a package, so that their names do not collide with user code. A zygote loads it with

    package = types.ModuleType("_cellwright_jail")
    package.__path__ = [the folder, `jailHostDir` of fork-jail.ts]
    sys.modules["_cellwright_jail"] = package
    from _cellwright_jail import jail

and in a fork with one thread calls

    jail.enter(policy, limits=process_limits, keep_fds=(journal_fd, heartbeat_fd))

with the result of `jailRequest` of policy.ts and the ProcessLimits of limits.ts, as parsed JSON. It returns only in the
jailed process. All descriptors above 2 are closed, except those to keep. The calling process becomes the supervisor and
never returns: it forwards SIGINT and SIGTERM to the jailed process, exits with its status (128 + n for a signal), and
SIGKILL to it ends the whole jail. Raises OSError if the jail could not be built; nothing was run then.
"""

import os
import select
import signal
import socket

from . import forward, landlock, limits as process_limits, linux, namespaces, reaper
from .gate import gate

_FORWARDED = (signal.SIGINT, signal.SIGTERM)


def enter(policy, limits=None, keep_fds=(), report_first=None, die_with_parent=False):
    """`report_first` is called in the supervisor with the pid of the jail's first process."""
    linux.close_descriptors(keep_fds)
    # Blocked until there is a process to forward them to.
    signal.pthread_sigmask(signal.SIG_BLOCK, _FORWARDED)
    if limits:
        process_limits.join(limits)
    if die_with_parent:
        linux.signal_when_parent_dies(signal.SIGKILL)
    tier = _Namespaces(policy) if policy["tier"] == "namespaces" else _Landlock(policy)
    life, supervisors_life = os.pipe()
    is_begun, begun = os.pipe()
    first = os.fork()
    if first:
        os.close(life)
        os.close(begun)
        # From now on the program is a child of the first process.
        if os.read(is_begun, 1) and report_first:
            report_first(first)
        os.close(is_begun)
        _become_supervisor(first, keep_fds)
    try:
        os.close(supervisors_life)
        os.close(is_begun)
        linux.signal_when_parent_dies(tier.end_signal)
        if select.select([life], [], [], 0)[0]:
            os._exit(125)  # The supervisor ended before its death signal was requested.
        os.close(life)
        tier.become_first()
        pair = socket.socketpair() if gate.wanted(policy) else None
        proxy = policy.get("proxy")
        gates_end, bridged = forward.bridge() if proxy and proxy["port"] is None else (None, None)
        program = os.fork()
        if program:
            os.write(begun, b"x")
            os.close(begun)
            if pair:
                pair[1].close()
            if bridged:
                bridged.close()
            answered = gate.open_gate(pair[0], policy, gates_end) if pair else None
            reaper.serve(program, _FORWARDED, tier.end_all, answered)
        os.close(begun)
        if gates_end:
            gates_end.close()
        # Started after the fork, so that the program is the first child of the first process: so the host finds it.
        if bridged:
            forward.start_bridged(proxy["socket"], bridged)
        elif proxy:
            forward.start(proxy["socket"], proxy["port"])
        _become_program(policy, limits, tier)
        if pair:
            pair[0].close()
            gate.install(pair[1], policy)
        if limits:
            # Last, because it also limits how many descriptors the user's processes may have in flight through sockets.
            process_limits.apply_open_files(limits)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _FORWARDED)
    except BaseException:
        _report_and_exit()


def _become_program(policy, limits, tier):
    # A new session, so that signals to its group do not reach the reaper.
    os.setsid()
    os.chdir(policy["workingDir"])
    os.environ.clear()
    os.environ.update(policy["env"])
    if limits:
        process_limits.apply(limits, tier.process_scope)
    tier.restrict()


class _Namespaces:
    """Own namespaces for mounts, processes, network, IPC and users."""

    # All others end with the first process of a pid namespace.
    end_signal = signal.SIGKILL
    process_scope = "namespace"
    end_all = None

    def __init__(self, policy):
        self._policy = policy
        self._root = namespaces.build(policy["namespaces"])

    def become_first(self):
        namespaces.enter(self._root, self._policy["namespaces"])
        linux.drop_privileges()
        _filter_calls(self._policy)

    def restrict(self):
        if "landlock" in self._policy:
            landlock.restrict(self._policy["landlock"])


class _Landlock:
    """No namespaces: Landlock, a seccomp filter, and a reaper that kills all descendants."""

    # The reaper is not pid 1: it has to kill the others itself.
    end_signal = signal.SIGUSR1
    process_scope = "user"

    def __init__(self, policy):
        self._policy = policy
        if linux.landlock_abi() == 0:
            raise OSError("this kernel has no Landlock")

    def become_first(self):
        os.setsid()
        # The gate acts for the program with the program's rights.
        linux.drop_privileges()
        linux.adopt_orphans()
        signal.signal(self.end_signal, lambda *_: self.end_all(leave=True))

    def end_all(self, leave=False):
        reaper.end_descendants()
        if leave:
            os._exit(128 + signal.SIGKILL)

    def restrict(self):
        landlock.restrict(self._policy["landlock"])
        _filter_calls(self._policy)


def _filter_calls(policy):
    linux.filter_system_calls(bytes.fromhex(policy["seccomp"]))


def _report_and_exit():
    """After the fork there is no caller to raise to: reports the exception on stderr."""
    import traceback

    traceback.print_exc()
    os._exit(125)


def _become_supervisor(first, keep_fds):
    reaper.forward_signals(_FORWARDED, first)
    for descriptor in keep_fds:
        os.close(descriptor)
    reaper.wait_for(first)
