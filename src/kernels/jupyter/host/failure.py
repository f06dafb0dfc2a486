"""An exception as a notebook shows it: its name, its message, and a traceback of the cell's own lines."""

import asyncio
import os
import sys
import traceback

import ipykernel
import IPython
from IPython.core.error import UsageError

from _cellwright import hints, interrupts

_MAX_MESSAGE_CHARS = 100_000
_MAX_LINE_CHARS = 10_000
_MAX_LINES = 400
_MAX_FRAMES = 80

# Frames in these are machinery: ours, and what we stand on.
_own = tuple(os.path.join(folder, "") for folder in sys.modules["_cellwright"].__path__)
_machinery = (*_own, *(os.path.join(folder, "") for folder in (*IPython.__path__, *ipykernel.__path__)))
_options = {"lookup_lines": False, **({"compact": True} if sys.version_info >= (3, 10) else {})}


def describe(error, code):
    """Name, message and lines. `code` is the cell's, for hints."""
    try:
        return _describe(error, code)
    except BaseException as second:
        # The exception's own code failed, or there is no memory left to speak of it.
        name = type(error).__name__
        return name, f"<its message could not be read: {type(second).__name__}>", [name]


def meant(error):
    """An interrupt that ended an `await` is an interrupt."""
    if isinstance(error, asyncio.CancelledError) and interrupts.happened():
        return KeyboardInterrupt().with_traceback(error.__traceback__)
    return error


def leave_out_own(error):
    """For IPython's own traceback: it knows its frames, and not ours."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        if place.tb_next.tb_frame.f_code.co_filename.startswith(_own):
            place.tb_next = place.tb_next.tb_next
        else:
            place = place.tb_next


def message_of(error):
    if isinstance(error, SyntaxError) and error.msg is not None:
        where = f" ({error.filename}, line {error.lineno})" if error.lineno else ""
        return f"{error.msg}{where}"
    try:
        return str(error)
    except Exception as second:
        return f"<its message could not be read: {type(second).__name__}>"


def _describe(error, code):
    error = meant(error)
    if isinstance(error, UsageError):
        # Of a magic's arguments; where it was found is of no interest.
        return "UsageError", message_of(error), [f"UsageError: {message_of(error)}"]
    report = traceback.TracebackException.from_exception(error, **_options)
    _leave_out_machinery(report, set())
    lines = "".join(report.format()).splitlines()
    has_heading = lines[0].startswith("Traceback")
    # A program's traceback is Python's own; a notebook's has a word of ours where it helps.
    is_script = interrupts.script_file is not None
    if is_script:
        lines = lines if has_heading else ["Traceback (most recent call last):", *lines]
    elif not report.stack and report.__cause__ is None and report.__context__ is None:
        # Python begins with a heading even if there is nothing below it.
        lines = lines[1:] if has_heading else lines
    hint = None if is_script else hints.hint(error, code)
    if hint:
        lines.append(hint)
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"  … {len(lines) - 2 * half} lines left out …", *lines[-half:]]
    return (
        type(error).__name__,
        message_of(error)[:_MAX_MESSAGE_CHARS],
        [line[:_MAX_LINE_CHARS] for line in lines],
    )


class _Stack(traceback.StackSummary):
    """Cut in the middle before it is put into words, which takes a second for a recursion."""

    def format(self, **options):
        if len(self) <= _MAX_FRAMES:
            return super().format(**options)
        half = _MAX_FRAMES // 2
        above, below = (traceback.StackSummary.from_list(part) for part in (self[:half], self[-half:]))
        left_out = f"  … {len(self) - 2 * half} calls left out …\n"
        return [*above.format(**options), left_out, *below.format(**options)]


def _leave_out_machinery(report, seen):
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    report.stack = _Stack(_frames_of_the_cell(list(report.stack)))
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        _leave_out_machinery(other, seen)


def _frames_of_the_cell(frames):
    is_cells = [interrupts.is_of_cell(frame.filename) for frame in frames]
    if True in is_cells:
        # What lies above the cell has carried it. What lies below us is how we do what it asked for, such as printing.
        last = len(frames) - is_cells[::-1].index(True)
        below = next((i for i in range(last, len(frames)) if frames[i].filename.startswith(_own)), len(frames))
        frames = frames[is_cells.index(True) : below]
    return [frame for frame in frames if not frame.filename.startswith(_machinery)]
