"""
Delivers interrupts where they are safe. Pyodide calls the SIGINT handler in the middle of whatever Python is doing.
That may be the cell; but in the event loop or in the runner an exception would be lost or end the kernel. There the
request stays pending until the cell's own code can be ended, or the task that the cell awaits can be cancelled.
"""

import asyncio
import functools
import os
import signal
import sys
from typing import Any

import pyodide

_EVENT_LOOP = tuple(os.path.join(package.__path__[0], "") for package in (asyncio, pyodide))
# Frames in these files are not user code.
_MACHINERY = ("<cellwright", *_EVENT_LOOP)
# Pyodide looks for an interrupt once in so many steps of Python.
_STEPS = 50
# How many looks an interrupt waits for the end of a finalizer, which takes about a tenth of a second.
_FINALIZER_LOOKS = 5_000

# The interrupts sent to this process: the `InterruptReceiver` of `deno/interrupts.ts`.
_requests: Any
# Functions of the runner that handle a KeyboardInterrupt, as if they were user code.
_endable = set()
# Tasks that the cell awaits, innermost last.
_awaited = []
# The newest request that ended the cell's code or cancelled an awaited task.
_delivered = 0
# What the cell set for SIGINT; if nothing, `_on_signal`.
_handler: Any
_python_signal, _python_getsignal = signal.signal, signal.getsignal
# The cancelled task, until it runs again.
_cancelling = None
# The task or callback that was ended last: not ended twice, because it may clean up.
_ended = None
# How often an interrupt came in a finalizer, and how often it waited there since it was sent.
_in_finalizers = 0
_waited = 0
_happened = False
_cell = 0
_is_running = False


def attach(host):
    global _requests, _handler
    _requests = host.interrupts
    _handler = _on_signal
    sys.unraisablehook = _on_unraisable
    signal.signal(signal.SIGINT, _on_signal)
    signal.signal, signal.getsignal = _set_handler, _get_handler


@functools.wraps(signal.signal)
def _set_handler(signalnum, handler):
    """Python would call the handler of a cell anywhere, as in the event loop, which ends if it raises."""
    global _handler
    if signalnum != signal.SIGINT:
        return _python_signal(signalnum, handler)
    if not callable(handler) and handler not in (signal.SIG_DFL, signal.SIG_IGN):
        raise TypeError("signal handler must be signal.SIG_IGN, signal.SIG_DFL, or a callable object")
    previous, _handler = _handler, handler
    return previous


@functools.wraps(signal.getsignal)
def _get_handler(signalnum):
    return _handler if signalnum == signal.SIGINT else _python_getsignal(signalnum)


def begin(cell):
    global _happened, _cell, _is_running, _cancelling, _ended, _waited, _handler
    _happened = False
    _waited = 0
    _cancelling = _ended = None
    # An interrupt in the middle of `Awaiting.__exit__` leaves a task behind.
    _awaited.clear()
    _cell = cell
    _is_running = True
    _handler = _on_signal


def end():
    global _is_running
    _is_running = False


def happened():
    """Whether the running cell has been interrupted."""
    return _happened


def endable(function):
    """Marks a function whose callees may be ended anywhere: it or its caller handles the KeyboardInterrupt."""
    _endable.add(function.__code__)
    return function


@endable
def run(function, *args):
    """Runs an interruptible function, unless an interrupt is pending. The caller handles the KeyboardInterrupt."""
    check()
    return function(*args)


def check():
    """Delivers a pending interrupt."""
    if _requests.take():
        signal.raise_signal(signal.SIGINT)


class Awaiting:
    """The task that the cell awaits, from now to the end of the `with`: what else runs is not the cell."""

    def __init__(self, task):
        self._task = task
        _awaited.append(task)

    def __enter__(self):
        return self._task

    def __exit__(self, *_error):
        global _cancelling
        if self._task in _awaited:
            _awaited.remove(self._task)
        if _cancelling is self._task:
            _cancelling = None
            _requests.forget(_delivered)


def deliver(request):
    """Called in the event loop, without Python on the stack. False: the cell neither awaits nor has it been ended."""
    global _delivered, _happened, _cancelling, _ended
    if _delivered < request and _awaited and _awaited[-1].cancel():
        _delivered = request
        _happened = True
        _cancelling = _awaited[-1]
        _ended = None
    return _delivered >= request


def _on_signal(number, frame):
    global _delivered, _happened, _waited
    # After `repeat`, the interrupt may arrive while this module handles it: what counts is the code below.
    while frame.f_code in _RAISERS:
        frame = frame.f_back
    if not _is_running and _requests.cell <= _cell:
        # Too late: the cell has ended.
        return
    _happened = _happened or _is_running
    if not _is_running or _cancelling is not None or (_awaited and _awaited[-1] is not asyncio.current_task()):
        _clear_the_way(frame)
    elif _can_end(frame):
        _delivered = _requests.heard
        _waited = 0
        if _handler is signal.SIG_IGN:
            return
        if _handler in (_on_signal, signal.SIG_DFL):
            raise KeyboardInterrupt
        _handler(number, frame)
    else:
        _requests.repeat()


def _clear_the_way(frame):
    """
    Ends other tasks and callbacks that compute while the cell waits, is being cancelled or has not started: the cell
    gets the interrupt only when the event loop continues. The request stays pending, because there may be several.
    """
    global _cancelling, _ended
    task = asyncio.current_task()
    if _cancelling is not None and task is not None and task.cancelling():
        # The cancellation has arrived in the task that runs now.
        _cancelling = None
        return
    # A callback has no task, and is identified by its outermost frame.
    runs = task or _outermost(frame)
    ends = runs is not _ended and _can_end(frame)
    if ends:
        _ended = runs
    _requests.repeat()
    if ends:
        raise KeyboardInterrupt


def _on_unraisable(unraisable):
    """Python drops exceptions of a finalizer or a weakref callback. An interrupt among them is delivered again."""
    global _delivered, _ended
    raiser = _raiser(unraisable.exc_value)
    if raiser not in _RAISERS:
        sys.__unraisablehook__(unraisable)
        return
    _ended = None
    if raiser is _on_signal.__code__:
        _delivered = _requests.heard - 1
        _requests.repeat()
    _leave_finalizer()


def _leave_finalizer():
    """Pyodide looks again after a fixed number of steps, which must not end in the same finalizer each time."""
    global _in_finalizers
    _in_finalizers += 1
    for _ in range(_in_finalizers % _STEPS):
        pass


def _waits_for_finalizer():
    """A finalizer may handle the exception itself, as with `except: pass`: it gets one only if it does not end."""
    global _waited
    _waited += 1
    if _waited > _FINALIZER_LOOKS:
        return False
    _leave_finalizer()
    return True


def _raiser(error):
    trace = error and error.__traceback__
    while trace and trace.tb_next:
        trace = trace.tb_next
    return trace and trace.tb_frame.f_code


def _outermost(frame):
    while frame.f_back is not None:
        frame = frame.f_back
    return frame


def _can_end(frame):
    """Whether the frame is user code, called by something that handles exceptions: the runner or a task."""
    # Inside asyncio's own code, a task group could lose its tasks.
    if frame.f_code.co_filename.startswith(_EVENT_LOOP):
        return False
    is_user_code = False
    filename = ""
    while frame is not None:
        filename = frame.f_code.co_filename
        # Python would drop it.
        if frame.f_code is _on_unraisable.__code__:
            return False
        if frame.f_code.co_name == "__del__" and _waits_for_finalizer():
            return False
        if frame.f_code in _endable:
            return True
        is_user_code = is_user_code or not filename.startswith(_MACHINERY)
        frame = frame.f_back
    # If the outermost frame is user code, JavaScript called it: an exception would end the worker.
    return is_user_code and filename.startswith(_EVENT_LOOP)


_RAISERS = {function.__code__ for function in (_on_signal, _clear_the_way)}
