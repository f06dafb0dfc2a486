"""
SIGINT, aimed: it ends the code of the cell that runs, and never the kernel's own code around it. IPython would raise
KeyboardInterrupt wherever it happens to be, which loses replies, and drops a signal that comes a moment too early.
"""

import _thread
import asyncio
import collections
import signal
import sys
import threading
import time

# Cells compiled by us have file names that begin like this.
CELL_FILES = "<cell "
# The name of the one that is a program of its own, while it runs.
script_file = None

# By then the interpreter has noticed a signal that came first.
_NOTICE_SECONDS = 0.05
# A signal that comes so soon after a cell's beginning may have been meant for the one before: it has to be confirmed.
_doubt_seconds = 0.05
_REMEMBERED = 20
# By then code that must not be broken off is mostly over.
_SHELTER_SECONDS = 0.005

_cell_id = None
_began = 0
_hits = 0
_pending = False
_task = None
_drawing = False
# Cells that are to be interrupted; some before they have begun.
_named = collections.deque(maxlen=_REMEMBERED)
_sheltered = set()
# One has come while the cell was in something sheltered.
postponed = False


def is_of_cell(filename):
    return filename.startswith(CELL_FILES) or filename == script_file


def sheltered(function):
    """Of ours, called by cells, and not to be broken off: threads wait for its locks. See `deliver`."""
    _sheltered.add(function.__code__)
    return function


class Drawing:
    """While figures are drawn after the cell's own code, with which there is no frame of the cell on the stack."""

    def __enter__(self):
        global _drawing
        _drawing = True

    def __exit__(self, *_error):
        global _drawing
        _drawing = False


class Awaiting:
    """While the cell is a task."""

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
    """Again before each cell: the last one may have had a handler of its own."""
    if signal.getsignal(signal.SIGINT) is not _on_signal:
        signal.signal(signal.SIGINT, _on_signal)


def trust():
    """No signal comes later than the cell that it was meant for: whoever sends one waits for it before the next cell."""
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
    # Its own end may have been broken off.
    _drawing = False
    postponed = False


def happened():
    """Whether the cell that runs has been interrupted."""
    return _hits > 0 or _pending


def check():
    """Before code of the cell: a signal that came while it was being compiled counts."""
    global _pending
    if _pending:
        _pending = False
        raise KeyboardInterrupt


def ask(cell_id, loop):
    """In the control thread, after a signal was sent: it may have come before the cell did, or been doubted."""
    _named.append(cell_id)
    loop.call_later(_NOTICE_SECONDS, _make_sure, cell_id, loop)


def _make_sure(cell_id, loop):
    """Until it is noticed: a signal that comes just before the thread goes to sleep in C does not wake it."""
    if cell_id != _cell_id or happened():
        return
    _signal_main_thread()
    # A handler of the cell's own is not told twice more.
    if signal.getsignal(signal.SIGINT) is _on_signal:
        loop.call_later(_NOTICE_SECONDS, _make_sure, cell_id, loop)


def _signal_main_thread():
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


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
        # For the case that nobody delivers it.
        _thread.start_new_thread(_signal_again, (_cell_id,))
    elif can_break_off:
        _break_off()
    elif _task is not None:
        _task.get_loop().call_soon_threadsafe(_task.cancel)
    else:
        # Nothing of ours is broken off: the cell has not begun, or it is over, or its failure is being told.
        _pending = True


def deliver():
    """After what was sheltered, when an interrupt was postponed. The kernel's own code is not broken off here, either."""
    global postponed
    if not postponed or threading.get_ident() != threading.main_thread().ident:
        return
    is_in_cell, is_sheltered = _look_at(sys._getframe())
    if (is_in_cell or _drawing) and not is_sheltered:
        postponed = False
        _break_off()


def _break_off():
    # In a task, KeyboardInterrupt would leave the event loop, and with it the kernel.
    raise KeyboardInterrupt if _task is None else asyncio.CancelledError


def _look_at(frame):
    """Whether the cell's code is on the stack, and whether something of ours below it must not be broken off."""
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
