"""
Handles SIGINT so that it interrupts only the running cell's code, never the kernel's own code around it. IPython would
raise KeyboardInterrupt anywhere, which loses replies, and drops a signal that arrives slightly too early.
"""

import _thread
import asyncio
import collections
import signal
import sys
import threading
import time

# File names of cells begin with this.
CELL_FILES = "<cell "
# The file name of the running cell if it is a script.
script_file = None

# After this time, the interpreter has handled a signal that was sent before.
_NOTICE_SECONDS = 0.05
# A signal this soon after a cell's start may have been meant for the previous cell: it needs a confirmation.
_doubt_seconds = 0.05
_REMEMBERED = 20
# After this time, sheltered code has usually ended.
_SHELTER_SECONDS = 0.005

_cell_id = None
_began = 0
_hits = 0
_pending = False
_task = None
_drawing = False
# Ids of cells to interrupt; some have not begun yet.
_named = collections.deque(maxlen=_REMEMBERED)
_sheltered = set()
# An interrupt arrived while the cell was in sheltered code.
postponed = False


def is_of_cell(filename):
    return filename.startswith(CELL_FILES) or filename == script_file


def sheltered(function):
    """Marks our functions that cells call and that must not be interrupted, because they hold locks. See `deliver`."""
    _sheltered.add(function.__code__)
    return function


class Drawing:
    """Active while figures are drawn after the cell's code, when no frame of the cell is on the stack."""

    def __enter__(self):
        global _drawing
        _drawing = True

    def __exit__(self, *_error):
        global _drawing
        _drawing = False


class Awaiting:
    """Active while the cell runs as an asyncio task."""

    def __init__(self, task):
        self._task = task

    def __enter__(self):
        global _task
        _task = self._task
        if _pending:
            _task.cancel()

    def __exit__(self, *_error):
        global _task
        _task = None


def install():
    """Called again before each cell, because the previous one may have set a handler."""
    if signal.getsignal(signal.SIGINT) is not _on_signal:
        signal.signal(signal.SIGINT, _on_signal)


def trust():
    """Accept signals without confirmation: the sender waits for delivery before the next cell, so none can be late."""
    global _doubt_seconds
    _doubt_seconds = 0


def begin(cell_id):
    global _cell_id, _began, _hits, _pending, postponed
    install()
    _hits = 0
    postponed = False
    _began = time.monotonic()
    _cell_id = cell_id
    _pending = cell_id in _named


def end():
    global _cell_id, _pending, _drawing, postponed
    _cell_id = None
    _pending = False
    # Its `__exit__` may have been interrupted.
    _drawing = False
    postponed = False


def happened():
    """Whether the running cell has been interrupted."""
    return _hits > 0 or _pending


def check():
    """Called before the cell's code runs: raises for a signal that arrived during its compilation."""
    global _pending
    if _pending:
        _pending = False
        raise KeyboardInterrupt


def ask(cell_id, loop):
    """Confirms an interrupt, in the control thread: its signal may have arrived before the cell, or been ignored."""
    _named.append(cell_id)
    loop.call_later(_NOTICE_SECONDS, _make_sure, cell_id, loop)


def _make_sure(cell_id, loop):
    """Repeats the signal until it is handled: one that arrives just before a blocking C call does not interrupt it."""
    if cell_id != _cell_id or happened():
        return
    _signal_main_thread()
    # The cell's own handler is called only once.
    if signal.getsignal(signal.SIGINT) is _on_signal:
        loop.call_later(_NOTICE_SECONDS, _make_sure, cell_id, loop)


def _signal_main_thread():
    ident = threading.main_thread().ident
    assert ident is not None
    signal.pthread_kill(ident, signal.SIGINT)


def _on_signal(_number, frame):
    global _hits, _pending, postponed
    if _cell_id is None:
        return
    if _cell_id not in _named and time.monotonic() < _began + _doubt_seconds:
        return
    _hits += 1
    is_in_cell, is_sheltered = _look_at(frame)
    can_break_off = is_in_cell or _drawing
    postponed = can_break_off and is_sheltered
    if postponed:
        # Fallback in case `deliver` is not reached.
        _thread.start_new_thread(_signal_again, (_cell_id,))
    elif can_break_off:
        _break_off()
    elif _task is not None:
        _task.get_loop().call_soon_threadsafe(_task.cancel)
    else:
        # Only our code is running: the cell has not begun, is over, or its failure is being reported.
        _pending = True


def deliver():
    """Called after sheltered code: raises a postponed interrupt, if the cell's code is on the stack."""
    global postponed
    if not postponed or threading.get_ident() != threading.main_thread().ident:
        return
    is_in_cell, is_sheltered = _look_at(sys._getframe())
    if (is_in_cell or _drawing) and not is_sheltered:
        postponed = False
        _break_off()


def _break_off():
    # In a task, KeyboardInterrupt would end the event loop, and with it the kernel.
    raise KeyboardInterrupt if _task is None else asyncio.CancelledError


def _look_at(frame):
    """Whether the cell's code is on the stack, and whether it has called sheltered code."""
    is_sheltered = False
    while frame is not None:
        if is_of_cell(frame.f_code.co_filename):
            return True, is_sheltered
        is_sheltered = is_sheltered or frame.f_code in _sheltered
        frame = frame.f_back
    return False, is_sheltered


def _signal_again(cell_id):
    time.sleep(_SHELTER_SECONDS)
    if cell_id == _cell_id and postponed:
        _signal_main_thread()
