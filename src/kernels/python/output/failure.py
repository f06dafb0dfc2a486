"""An exception as shown in a notebook: its name, its message, and a traceback of the cell's own lines."""

import os
import sys
import traceback

import ipykernel
import IPython
from IPython.core.error import UsageError

from _cellwright import exception_text, hints, interrupts

_MAX_FRAMES = 80

# Folders of internal frames: Cellwright's, IPython's and ipykernel's.
_own = tuple(os.path.join(folder, "") for folder in sys.modules["_cellwright"].__path__)
_machinery = (*_own, *(os.path.join(folder, "") for folder in (*IPython.__path__, *ipykernel.__path__)))
_options = {"lookup_lines": False, **({"compact": True} if sys.version_info >= (3, 10) else {})}


def describe(error, code):
    """Name, message and lines. `code`: the cell's code, for hints."""
    return exception_text.describe(exception_text.meant(error), lambda error: _lines_of(error, code))


def leave_out_own(error):
    """Removes our frames before IPython formats the traceback; it hides only its own."""
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        if place.tb_next.tb_frame.f_code.co_filename.startswith(_own):
            place.tb_next = place.tb_next.tb_next
        else:
            place = place.tb_next


def _lines_of(error, code):
    if isinstance(error, UsageError):
        # Wrong arguments of a magic: the traceback does not help.
        return [f"UsageError: {exception_text.message_of(error)}"]
    report = traceback.TracebackException.from_exception(error, **_options)
    lines = exception_text.format_report(report, _frames_of_the_cell, _Stack)
    if interrupts.script_file is not None:
        # A script's traceback is as in Python; only a notebook's gets hints.
        return exception_text.with_heading(lines)
    if not report.stack and report.__cause__ is None and report.__context__ is None:
        # Python adds the heading even without frames.
        lines = lines[1:] if exception_text.has_heading(lines) else lines
    hint = hints.hint(error, code)
    return [*lines, hint] if hint else lines


class _Stack(traceback.StackSummary):
    """Cut in the middle before formatting, which takes a second for a deep recursion."""

    def format(self, **options):
        if len(self) <= _MAX_FRAMES:
            return super().format(**options)
        half = _MAX_FRAMES // 2
        above, below = (traceback.StackSummary.from_list(part) for part in (self[:half], self[-half:]))
        left_out = f"  … {len(self) - 2 * half} calls left out …\n"
        return [*above.format(**options), left_out, *below.format(**options)]


def _frames_of_the_cell(frames):
    is_cells = [interrupts.is_of_cell(frame.filename) for frame in frames]
    if True in is_cells:
        # Frames above the cell are those that run it. From our first frame below it on, frames are internals of what it
        # called, such as print.
        last = len(frames) - is_cells[::-1].index(True)
        below = next((i for i in range(last, len(frames)) if frames[i].filename.startswith(_own)), len(frames))
        frames = frames[is_cells.index(True) : below]
    return [frame for frame in frames if not frame.filename.startswith(_machinery)]
