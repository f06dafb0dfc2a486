"""The first process of a jail: waits for what loses its parent, and ends the rest when its program has ended."""

import os
import select
import signal

from . import linux


def serve(program, passed_on, end_all, gate):
    """Never returns. Its exit is the program's. `end_all` ends what a pid namespace would not; `gate`: see gate.py."""
    pass_on(passed_on, program)
    linux.hide_from_others()
    _close_others(gate)
    if gate is None:
        while True:
            _leave_after(program, *os.wait(), end_all)
    # Woken up by its children as by its gate.
    wake, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    poll = select.poll()
    poll.register(wake, select.POLLIN)
    poll.register(gate.descriptor, select.POLLIN)
    while True:
        _reap(program, end_all)
        for descriptor, ready in poll.poll():
            if descriptor == wake:
                os.read(wake, 4096)
            elif not gate.answer(ready):
                # No process with the filter is left; the program's end is on its way.
                poll.unregister(gate.descriptor)


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
    """When the first process of a pid namespace leaves, the kernel ends everything else in it."""
    if pid != program:
        return
    if end_all:
        end_all()
    os._exit(exit_code(status))


def pass_on(numbers, pid):
    for number in numbers:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)


def exit_code(status):
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def end_descendants():
    """All that is below this process, which adopts orphans: again until none is left, since they may fork meanwhile."""
    while True:
        for pid in _descendants():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        try:
            # One of them has been killed, so this comes back; then the others are looked for again.
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
                continue  # It has ended meanwhile.
            children.setdefault(parent, []).append(int(name))
    found = list(children.get(os.getpid(), ()))
    # It grows while it is walked through.
    for pid in found:
        found += children.get(pid, ())
    return found


def _close_others(gate):
    linux.close_descriptors([] if gate is None else gate.descriptors)
    # The program's own pipes must end with it, not with us.
    null = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(null, number)
    os.close(null)
