"""An exception as an event: its name, its message, and a traceback of the cell's own lines."""

import traceback

# Our modules are compiled under this name, so that their frames can be left out.
OWN_FILES = "<cellwright"

_HEADING = "Traceback (most recent call last):"

_MAX_MESSAGE_CHARS = 100_000
_MAX_LINE_CHARS = 10_000
_MAX_LINES = 400


def describe(error, script=None):
    """`script` is the file of a program of its own; a notebook's cell is given hints."""
    try:
        return _describe(error, script)
    except BaseException as second:
        # The exception's own code failed, or there is no memory left to speak of it.
        return {
            "type": "error",
            "name": type(error).__name__,
            "message": f"<its message could not be read: {type(second).__name__}>",
            "traceback": [type(error).__name__],
        }


def _describe(error, script):
    if script is None:
        _explain_missing_module(error)
    report = traceback.TracebackException.from_exception(error, compact=True)
    _leave_out_own_frames(report, script or "<cell ", set())
    lines = "".join(report.format()).splitlines()
    if script and not lines[0].startswith(_HEADING):
        # Of a program that was never begun.
        lines.insert(0, _HEADING)
    if len(lines) > _MAX_LINES:
        half = _MAX_LINES // 2
        lines = [*lines[:half], f"  … {len(lines) - 2 * half} lines left out …", *lines[-half:]]
    return {
        "type": "error",
        "name": type(error).__name__,
        "message": _message(error)[:_MAX_MESSAGE_CHARS],
        "traceback": [line[:_MAX_LINE_CHARS] for line in lines],
    }


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


def _message(error):
    if isinstance(error, SyntaxError) and error.msg is not None:
        where = f" ({error.filename}, line {error.lineno})" if error.lineno else ""
        return f"{error.msg}{where}"
    try:
        return str(error)
    except Exception as second:
        return f"<its message could not be read: {type(second).__name__}>"


def _leave_out_own_frames(report, cell_files, seen):
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    kept = [frame for frame in report.stack if not frame.filename.startswith(OWN_FILES)]
    # What lies above the cell is the event loop that carried it.
    first = next((index for index, frame in enumerate(kept) if frame.filename.startswith(cell_files)), None)
    report.stack = traceback.StackSummary.from_list(kept[first:] if first is not None else kept)
    for other in (report.__cause__, report.__context__, *(report.exceptions or ())):
        _leave_out_own_frames(other, cell_files, seen)
