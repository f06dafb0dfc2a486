"""The first process of a jail: reaps orphans, and ends the others when its program has ended."""

import os
import select
import signal

from . import linux


def serve(program, signals, end_all, gate):
    """Never returns; exits like the program. `end_all` kills what no pid namespace would; `gate`: see gate.py."""
    forward_signals(signals, program)
    linux.hide_from_others()
    _close_others(gate)
    wait_for(program, end_all, gate)


def wait_for(child, end_all=None, gate=None):
    """
    Never returns: exits like the child, and answers the gate until then.

    Python handles a signal that arrives just before a blocking call only when the call returns, which may be never. So
    only a poll blocks here, which includes a descriptor that every signal writes to.
    """
    poll = select.poll()
    signals = _signals_descriptor()
    poll.register(signals, select.POLLIN)
    if gate:
        poll.register(gate.descriptor, select.POLLIN)
    while True:
        _reap(child, end_all)
        for descriptor, ready in poll.poll():
            if descriptor == signals:
                os.read(signals, 4096)
            elif gate and not gate.answer(ready):
                # No process with the filter is left; the program is about to end.
                poll.unregister(gate.descriptor)


def _signals_descriptor():
    readable, writable = os.pipe()
    os.set_blocking(readable, False)
    os.set_blocking(writable, False)
    signal.set_wakeup_fd(writable, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return readable


def _reap(program, end_all):
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            return
        _leave_after(program, pid, status, end_all)


def _leave_after(program, pid, status, end_all):
    """When the first process of a pid namespace exits, the kernel kills all others in it."""
    if pid != program:
        return
    if end_all:
        end_all()
    os._exit(exit_code(status))


def forward_signals(numbers, pid):
    for number in numbers:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def exit_code(status):
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_descendants():
    """Kills all descendants of this process, which adopts orphans; repeated, because they may fork meanwhile."""
    while True:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            # Returns, because at least one of them was killed; then look for the others again.
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return


def _descendants():
    children = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/stat" % name) as file:
                    parent = int(file.read().rpartition(")")[2].split()[1])
            except OSError:
                continue  # The process has ended meanwhile.
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    # Grows during the loop.
    for pid in found:
        found += children.get(pid, ())
    return found


def _close_others(gate):
    linux.close_descriptors([] if gate is None else gate.descriptors)
    # The program's pipes must close when it ends, not when this process does.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
