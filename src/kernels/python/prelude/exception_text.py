"""An exception as text: its name, its message and its traceback, within limits."""

import asyncio
import traceback

from _cellwright import interrupts

_MAX_MESSAGE_CHARS = 100_000
_MAX_LINE_CHARS = 10_000
_MAX_LINES = 400

_HEADING = "Traceback (most recent call last):"


def describe(error, lines_of):
    """Name, message, and the lines that `lines_of(error)` returns."""
    name = type(error).__name__
    try:
        lines = lines_of(error)
        if len(lines) > _MAX_LINES:
            half = _MAX_LINES // 2
            lines = [*lines[:half], f"  … {len(lines) - 2 * half} lines left out …", *lines[-half:]]
        return name, message_of(error)[:_MAX_MESSAGE_CHARS], [line[:_MAX_LINE_CHARS] for line in lines]
    except BaseException as second:
        # The exception's own code failed, or memory ran out.
        return name, _unreadable(second), [name]


def meant(error):
    """Turns the CancelledError of an interrupted `await` into a KeyboardInterrupt."""
    if isinstance(error, asyncio.CancelledError) and interrupts.happened():
        return KeyboardInterrupt().with_traceback(error.__traceback__)
    return error


def message_of(error):
    if isinstance(error, SyntaxError) and error.msg is not None:
        where = f" ({error.filename}, line {error.lineno})" if error.lineno else ""
        return f"{error.msg}{where}"
    try:
        return str(error)
    except Exception as second:
        return _unreadable(second)


def format_report(report, frames_of, stack_class=traceback.StackSummary):
    """The lines of a `TracebackException`, reduced to the frames that `frames_of` keeps, in its causes, too."""
    _keep_frames(report, lambda stack: stack_class(frames_of(list(stack))), set())
    return "".join(report.format()).splitlines()


def with_heading(lines):
    """Adds Python's heading where it is missing: for a program that never began."""
    return lines if has_heading(lines) else [_HEADING, *lines]


def has_heading(lines):
    return lines[0].startswith(_HEADING)


def _keep_frames(report, cut, seen):
    if report is None or id(report) in seen:
        return
    seen.add(id(report))
    report.stack = cut(report.stack)
    for other in (report.__cause__, report.__context__, *(getattr(report, "exceptions", None) or ())):
        _keep_frames(other, cut, seen)


def _unreadable(second):
    return f"<its message could not be read: {type(second).__name__}>"
