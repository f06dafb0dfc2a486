"""Runs cells. Part of the snapshot; `attach` connects it to a new process."""

import asyncio
import base64
import builtins
import contextvars
import functools
import importlib

# `invalidate_caches` imports it: if it were not in the snapshot, each start would take 0.2 s longer.
import importlib.metadata
import json
import os
import random
import sys
import time
from typing import Any

from pyodide.ffi import run_sync
from pyodide.webloop import WebLoop

from _cellwright import (
    cell_output,
    exception_text,
    failure,
    interrupts,
    mime,
    needs,
    output,
    plots,
    refusals,
    showing,
    source,
    text_streams,
    value_json,
    variables,
)

# An interrupt ends a sleep at once. Sleeps are sliced, because a worker that is silent for longer looks dead.
_SLEEP_SLICE_S = 0.5

_namespace = sys.modules["__main__"].__dict__
_output = output.Output()
_stdout = text_streams.Stream("stdout", 1, functools.partial(_output.write, False), _output.flush)
_stderr = text_streams.Stream("stderr", 2, functools.partial(_output.write, True), _output.flush)
_compiler = source.Compiler()
# All cells share one context, so that context variables persist.
_context = contextvars.copy_context()

# The host object of `worker.ts`; set by `attach`.
_host: Any
_count = 0
_cell: cell_output.Cell
_codes = ()
_awaiting: interrupts.Awaiting
_has_value = False
# Set if the running cell is a standalone program; None for a notebook cell.
_script = None
# How to report the cell's value as JSON, if at all.
_value_style = None


def attach(host):
    """Connects a restored Python to its process, and reseeds its random numbers, which all restores share."""
    global _host
    _host = host
    _output.attach(host)
    interrupts.attach(host)
    random.seed()
    # The package folders did not exist when the snapshot was made.
    importlib.invalidate_caches()
    sys.stdout = sys.__stdout__ = _stdout
    sys.stderr = sys.__stderr__ = _stderr
    # A leftover task may raise SystemExit or KeyboardInterrupt. The loop reports that, and must not end because of it.
    loop = asyncio.get_event_loop()
    loop._keyboard_interrupt_handler = loop._system_exit_handler = lambda *_args: None  # pyright: ignore[reportAttributeAccessIssue]
    _rehearse()
    return ".".join(map(str, sys.version_info[:3]))


def start(tag, request):
    """Runs a cell. Returns False if it has to be awaited: then `finish` continues it."""
    global _cell, _codes, _has_value, _awaiting
    request = json.loads(request)
    _cell = cell_output.Cell(tag, request["silent"])
    _context.run(_output.begin, _cell)
    value = error = None
    interrupts.begin(tag)
    try:
        _prepare(request)
        if any(map(source.is_awaitable, _codes)):
            # The body never raises: an exception that leaves a task would also affect the event loop.
            task = asyncio.get_event_loop().create_task(_run_awaiting(_codes), context=_context)
            # From here, because tasks of earlier cells may run before `finish`.
            _awaiting = interrupts.Awaiting(task)
            return False
        value = _context.run(interrupts.run, _run, _codes)
    except BaseException as raised:
        error = raised
    _context.run(_end, value, error)
    return True


async def finish():
    value = error = None
    try:
        with _awaiting as task:
            value, error = await task
    except BaseException as raised:
        error = raised
    _context.run(_end, value, error)


# Called by `worker.ts`.
interrupt = interrupts.deliver


def answer(question):
    """Answers a question between cells, without running user code."""
    question = json.loads(question)
    if "missing" in question:
        return json.dumps(needs.missing_modules(question["missing"]))
    if "refresh" in question:
        importlib.invalidate_caches()
        return "true"
    return json.dumps(variables.answer(_namespace, question))


def _prepare(request):
    global _count, _codes, _has_value, _script, _value_style
    if not request["silent"]:
        _count += 1
    _codes = ()
    _script = request.get("script")
    _value_style = request.get("value")
    filename = "<cell silent>" if request["silent"] else f"<cell {_count}>"
    if _script:
        filename = _script["filename"]
    _codes, _has_value = _compiler.compile(request["code"], filename)
    _namespace.update(request["variables"])
    for name, text in request["bytes"].items():
        _namespace[name] = base64.b64decode(text)


def _run(codes):
    value = None
    for code in codes:
        value = eval(code, _namespace)
    return value


@interrupts.endable
async def _run_awaiting(codes):
    value = None
    try:
        for code in codes:
            value = eval(code, _namespace)
            if source.is_awaitable(code):
                value = await value
        return value, None
    except BaseException as error:
        return None, error


def _end(value, error):
    """Reports how the cell ended. Showing its value and figures runs user code, which may be interrupted."""
    global _codes
    cell = _cell
    has_value = _has_value and error is None and value is not None
    has_run = bool(_codes)
    _codes = ()
    try:
        if has_value:
            interrupts.run(_show_result, value, cell)
    except BaseException as raised:
        error = raised
    try:
        if has_run and not cell.silent:
            is_stopped = isinstance(error, (KeyboardInterrupt, asyncio.CancelledError))
            interrupts.run(plots.end_cell, value, is_stopped)
    except BaseException as raised:
        error = error or raised
    interrupts.end()
    if error is not None:
        report = failure.describe(exception_text.meant(error), _script and _script["filename"])
    _output.end(cell)
    if error is not None:
        _output.event(report)
    status = "ok" if error is None else "error"
    _output.done(cell, {"type": "done", "status": status, "executionCount": None if cell.silent else _count})


def _show_result(value, cell):
    data = mime.bundle(value)
    if _value_style:
        data[value_json.KIND] = value_json.form(value, _value_style)
    if not _script and not cell.silent:
        _namespace["___"] = _namespace.get("__", "")
        _namespace["__"] = _namespace.get("_", "")
        _namespace["_"] = value
    _output.display(mime.to_json({"type": "result"}, data))


def _run_until_complete(loop, future):
    """Waits inside a cell by switching stacks, and can be interrupted."""
    outcome = []
    task = asyncio.ensure_future(_keep_outcome(future, outcome), loop=loop)
    _output.flush()
    with interrupts.Awaiting(task):
        try:
            run_sync(task)
        except BaseException:
            if outcome:
                raise
    if not outcome:
        # Cancelled before it started.
        (future.cancel if asyncio.isfuture(future) else future.close)()
        raise asyncio.CancelledError
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


async def _keep_outcome(future, outcome):
    """Never raises: an exception that leaves a task, or crosses the stack switch, would also be printed there."""
    try:
        outcome.append((await future, None))
    except BaseException as error:
        outcome.append((None, error))


def _sleep(seconds, /):
    """`time.sleep` that an interrupt can end."""
    if (
        not isinstance(seconds, (int, float))
        and not hasattr(seconds, "__float__")
        and not hasattr(seconds, "__index__")
    ):
        raise TypeError(f"'{type(seconds).__name__}' object cannot be interpreted as an integer")
    left = float(seconds)
    if left < 0:
        raise ValueError("sleep length must be non-negative")
    end = time.monotonic() + left
    _output.flush()
    while left > 0:
        _host.sleep(min(left, _SLEEP_SLICE_S) * 1000)
        interrupts.check()
        left = end - time.monotonic()


def _rehearse():
    """Runs the code paths of every cell. For the snapshot this loads modules; in a process it compiles WebAssembly."""
    mime.to_json({"type": "result"}, mime.bundle(2))
    value_json.form([2], {"indent": 2, "quoteNonFinite": False})
    for code in ("1 / 0", "1 +"):
        try:
            eval(source.Compiler().compile(code, "<cell 0>")[0][-1])
        except Exception as error:
            json.dumps(failure.describe(error))


def _tidy():
    """Removes traces of the snapshot's build, and sets what a cell expects."""
    os.environ.clear()
    os.environ.update(HOME="/home/user", USER="user", PWD="/workspace", LANG="C.UTF-8")
    sys.path[:] = ["", *(path for path in sys.path if path), "/site", "/image"]


_tidy()
WebLoop.run_until_complete = _run_until_complete
time.sleep = _sleep
builtins.__dict__.update(zip(("display", "clear_output"), showing.create(_output)))
plots.install(lambda data: _output.display(mime.to_json({"type": "display"}, data)))
refusals.install(sys)
variables.hide(_namespace)
_rehearse()
