"""
The walls of jail.ts, built by a process around itself: after a fork, or by launch.py before it starts a program.
Standard library only; Linux.

The files of this folder are a package, so that none of their names is taken from user code. A zygote loads it with

    package = types.ModuleType("_cellwright_jail")
    package.__path__ = [the folder, `jailHostDir` of fork-jail.ts]
    sys.modules["_cellwright_jail"] = package
    from _cellwright_jail import jail

and in a fork with one thread calls

    jail.enter(policy, limits=process_limits, keep_fds=(journal_fd, heartbeat_fd))

with what `jailRequest` of jail.ts makes and the ProcessLimits of limits.ts, as parsed JSON. It returns in the jailed
process only. All descriptors above 2 are closed but those to keep. The calling process becomes the supervisor and never
returns: SIGINT and SIGTERM sent to it reach the jailed process, its exit status is the jailed process's (128 + n for a
signal), and SIGKILL to it ends all that is inside. An OSError: the walls could not be built, and nothing was run.
"""

import os
import select
import signal
import socket

from . import forward, gate, landlock, limits as process_limits, linux, namespaces, reaper

_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def enter(policy, limits=None, keep_fds=(), report_first=None, die_with_parent=False):
    """`report_first` is called in the supervisor with the pid of the process that all others are below."""
    linux.close_descriptors(keep_fds)
    # Until there is a process to pass them on to, or to be interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
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
        # Only then does the first process have the program as its child.
        if os.read(is_begun, 1) and report_first:
            report_first(first)
        os.close(is_begun)
        _be_supervisor(first, keep_fds)
    try:
        os.close(supervisors_life)
        os.close(is_begun)
        linux.signal_when_parent_dies(tier.end_signal)
        if select.select([life], [], [], 0)[0]:
            os._exit(125)  # The supervisor was gone before we asked to be told.
        os.close(life)
        tier.become_first()
        gated = gate.wanted(policy)
        ours, theirs = socket.socketpair() if gated else (None, None)
        bridge = forward.start(policy["proxy"]["socket"], tier.proxy_port) if "proxy" in policy else None
        program = os.fork()
        if program:
            os.write(begun, b"x")
            os.close(begun)
            if gated:
                theirs.close()
            reaper.serve(program, _PASSED_ON, tier.end_all, gate.open_gate(ours, policy, bridge) if gated else None)
        os.close(begun)
        if bridge:
            bridge.close()
        _be_program(policy, limits, tier)
        if gated:
            ours.close()
            gate.install(theirs, policy)
        if limits:
            # Only now: how many descriptors may be on their way through sockets depends on it, for all of the user's.
            process_limits.apply_open_files(limits)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    except BaseException:
        _die_of_it()


def _be_program(policy, limits, tier):
    # A session of its own: no signal to its group reaches the reaper.
    os.setsid()
    os.chdir(policy["workingDir"])
    os.environ.clear()
    os.environ.update(policy["env"])
    if limits:
        process_limits.apply(limits, tier.process_scope)
    tier.restrict()


class _Namespaces:
    """Mounts, processes, network, IPC and users of its own."""

    # With the first process of a pid namespace all others end.
    end_signal = signal.SIGKILL
    proxy_port = forward.PORT
    process_scope = "namespace"
    end_all = None

    def __init__(self, policy):
        self._policy = policy
        self._root = namespaces.build(policy)

    def become_first(self):
        namespaces.enter(self._root, self._policy)
        linux.drop_privileges()
        _filter_calls(self._policy)

    def restrict(self):
        # A sandbox that is built inside needs mounts, which no process under Landlock can make.
        if not self._policy.get("nests"):
            landlock.restrict_within(self._policy)


class _Landlock:
    """No namespaces: rights over files given up, system calls filtered, and a reaper that finds what is to end."""

    # The reaper is no pid 1: it has to end the others itself.
    end_signal = signal.SIGUSR1
    # Its network is the machine's, where a port would be everyone's.
    proxy_port = None
    process_scope = "user"

    def __init__(self, policy):
        self._policy = policy
        if linux.landlock_abi() == 0:
            raise OSError("this kernel has no Landlock")

    def become_first(self):
        os.setsid()
        # What the gate does for the program it does with the program's rights.
        linux.drop_privileges()
        linux.adopt_orphans()
        signal.signal(self.end_signal, lambda *_: self.end_all(leave=True))

    def end_all(self, leave=False):
        reaper.end_descendants()
        if leave:
            os._exit(128 + signal.SIGKILL)

    def restrict(self):
        landlock.restrict_to(self._policy)
        _filter_calls(self._policy)


def _filter_calls(policy):
    if policy.get("seccomp"):
        linux.filter_system_calls(bytes.fromhex(policy["seccomp"]))


def _die_of_it():
    """Only the calling process can raise to its caller: this one is beyond the fork and says it on stderr."""
    import traceback

    traceback.print_exc()
    os._exit(125)


def _be_supervisor(first, keep_fds):
    reaper.pass_on(_PASSED_ON, first)
    for descriptor in keep_fds:
        os.close(descriptor)
    os._exit(reaper.exit_code(os.waitpid(first, 0)[1]))
