"""Converts an exception to an event: name, message, and a traceback of the cell's own lines."""

import traceback

from _cellwright import exception_text

# Our modules are compiled with this file name prefix, so that their frames can be left out.
_OWN_FILES = "<cellwright"


def describe(error, script=None):
    """`script` is the file name of a standalone program; only a notebook cell gets hints."""
    name, message, lines = exception_text.describe(error, lambda error: _lines_of(error, script))
    return {"type": "error", "name": name, "message": message, "traceback": lines}


def _lines_of(error, script):
    if script is None:
        _explain_missing_module(error)
    report = traceback.TracebackException.from_exception(error, compact=True)
    lines = exception_text.format_report(report, lambda frames: _frames_of_the_cell(frames, script or "<cell "))
    return exception_text.with_heading(lines) if script else lines


def _explain_missing_module(error):
    missing = error if isinstance(error, ModuleNotFoundError) else error.__context__
    if not isinstance(missing, ModuleNotFoundError) or not missing.name:
        return
    if missing.name == "_multiprocessing":
        error.add_note("This kernel runs in WebAssembly and has one process. Run the work in order, or use asyncio.")
    elif missing is error:
        error.add_note(
            f"`{missing.name}` is not installed in this session. Ask for it with install_packages, or import it at the "
            "top of a cell, outside of functions and conditions."
        )


def _frames_of_the_cell(frames, cell_files):
    kept = [frame for frame in frames if not frame.filename.startswith(_OWN_FILES)]
    # Frames above the cell are those of the event loop.
    first = next((index for index, frame in enumerate(kept) if frame.filename.startswith(cell_files)), 0)
    return kept[first:]
