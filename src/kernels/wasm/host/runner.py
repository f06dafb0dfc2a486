"""Runs cells. Lives in the snapshot; `attach` connects it to a fresh process."""

import asyncio
import base64
import builtins
import contextvars
import functools
import importlib

# `invalidate_caches` imports it: without it in the snapshot, each start would load it and all it needs, for 0.2 s.
import importlib.metadata  # noqa: F401
import json
import os
import random
import signal
import sys
import time

from pyodide.ffi import run_sync
from pyodide.webloop import WebLoop

from _cellwright import failure, mime, needs, output as outputs, plots, refusals, showing, source
from _cellwright import text_streams, value_json, variables

_SLEEP_SLICE_S = 0.02

_namespace = sys.modules["__main__"].__dict__
_output = outputs.Output()
_stdout = text_streams.Stream("stdout", 1, functools.partial(_output.write, False), _output.flush)
_stderr = text_streams.Stream("stderr", 2, functools.partial(_output.write, True), _output.flush)
_compiler = source.Compiler()
# All cells run in one context: what a cell sets in a context variable is there in the next.
_context = contextvars.copy_context()

_host = None
_count = 0
_cell = None
_codes = None
_has_value = False
# How the running cell is a program of its own; None for a notebook's.
_script = None
# How its value is to be told as JSON, if it is.
_value_style = None
_task = None
# What `asyncio.run` and the like wait for inside a cell; the innermost is last.
_waited_for = []


def attach(host):
    """Connects a restored Python to its process, and undoes what all restores have in common: their randomness."""
    global _host
    _host = host
    _output.attach(host)
    random.seed()
    # The folders of packages were not there when the snapshot was made.
    importlib.invalidate_caches()
    sys.stdout = sys.__stdout__ = _stdout
    sys.stderr = sys.__stderr__ = _stderr
    # A task left behind may end by SystemExit or KeyboardInterrupt. The loop reports it, and must not die of it.
    loop = asyncio.get_event_loop()
    loop._keyboard_interrupt_handler = loop._system_exit_handler = lambda *_args: None
    _rehearse()
    return ".".join(map(str, sys.version_info[:3]))


def start(tag, request):
    """Begins a cell, and ends it too unless it has to be awaited: then returns False, and `finish` goes on with it."""
    global _cell, _codes, _has_value
    request = json.loads(request)
    _cell = outputs.Cell(tag, request["silent"])
    _context.run(_output.begin, _cell)
    value = error = None
    try:
        _prepare(request)
        if any(map(source.is_awaitable, _codes)):
            _begin_user_code()
            return False
        value = _context.run(_run, _codes)
    except BaseException as raised:
        error = raised
    _context.run(_end, value, error)
    return True


async def finish():
    global _task
    value = error = None
    try:
        # The body never raises: an exception that leaves a task also leaves its mark on the event loop.
        _task = asyncio.get_event_loop().create_task(_run_awaiting(_codes), context=_context)
        value, error = await _task
    except BaseException as raised:
        error = raised
    finally:
        _task = None
    _context.run(_end, value, error)


def cancel():
    """Ends a pending await. A cell that is not waiting gets a KeyboardInterrupt instead, from the host."""
    task = _waited_for[-1] if _waited_for else _task
    if task is not None:
        _cell.interrupted = True
        task.cancel()


def answer(question):
    """What is asked between cells, without running user code."""
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
    _namespace.update(json.loads(request["variables"]))
    for name, text in request["bytes"].items():
        _namespace[name] = base64.b64decode(text)


def _begin_user_code():
    # Whoever stops a cell may be faster than we are.
    if _host.interruptible(True):
        raise KeyboardInterrupt


def _run(codes):
    value = None
    _begin_user_code()
    for code in codes:
        value = eval(code, _namespace)
    return value


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
    """Reports how the cell ended. Showing its value and figures runs user code once more, and may be interrupted."""
    global _codes
    cell = _cell
    has_value = _has_value and error is None and value is not None
    has_run = bool(_codes)
    _codes = None
    try:
        if has_value:
            _show_result(value, cell)
    except BaseException as raised:
        error = raised
    try:
        if has_run and not cell.silent:
            plots.end_cell(value, isinstance(error, (KeyboardInterrupt, asyncio.CancelledError)))
    except BaseException as raised:
        error = error or raised
    _host.interruptible(False)
    if error is not None:
        if cell.interrupted and isinstance(error, asyncio.CancelledError):
            error = KeyboardInterrupt().with_traceback(error.__traceback__)
        report = failure.describe(error, _script and _script["filename"])
    _output.end(cell)
    if error is not None:
        _output.event(report)
    status = "ok" if error is None else "error"
    _output.event({"type": "done", "status": status, "executionCount": None if cell.silent else _count})


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
    """Waits inside a cell, by a switch of stacks, where an interrupt can find it."""
    outcome = []
    task = asyncio.ensure_future(_keep_outcome(future, outcome), loop=loop)
    _output.flush()
    _waited_for.append(task)
    try:
        run_sync(task)
    finally:
        _waited_for.remove(task)
    value, error = outcome[0]
    if error is not None:
        raise error
    return value


async def _keep_outcome(future, outcome):
    """Never raises: an exception that left a task, or crossed the switch of stacks, would be printed there as well."""
    try:
        outcome.append((await future, None))
    except BaseException as error:
        outcome.append((None, error))


def _sleep(seconds, /):
    """`time.sleep` in slices: in one piece it could not be interrupted, and would look like a dead worker."""
    if not isinstance(seconds, (int, float)) and not hasattr(seconds, "__float__") and not hasattr(seconds, "__index__"):
        raise TypeError(f"'{type(seconds).__name__}' object cannot be interpreted as an integer")
    left = float(seconds)
    if left < 0:
        raise ValueError("sleep length must be non-negative")
    end = time.monotonic() + left
    _output.flush()
    while left > 0:
        if _host.sleep(min(left, _SLEEP_SLICE_S) * 1000):
            signal.raise_signal(signal.SIGINT)
        left = end - time.monotonic()


def _rehearse():
    """Walks the ways that every cell takes. In the snapshot this loads modules; in a process it compiles WebAssembly."""
    mime.to_json({"type": "result"}, mime.bundle(2))
    value_json.form([2], {"indent": 2, "quoteNonFinite": False})
    for code in ("1 / 0", "1 +"):
        try:
            eval(source.Compiler().compile(code, "<cell 0>")[0][-1])
        except Exception as error:
            json.dumps(failure.describe(error))


def _tidy():
    """What building the snapshot left behind, and what a cell expects to find."""
    os.environ.clear()
    os.environ.update(HOME="/home/user", USER="user", PWD="/workspace", LANG="C.UTF-8")
    sys.path[:] = ["", *(path for path in sys.path if path), "/site", "/image"]


_tidy()
WebLoop.run_until_complete = _run_until_complete
time.sleep = _sleep
builtins.display, builtins.clear_output = showing.create(_output)
plots.install(lambda data: _output.display(mime.to_json({"type": "display"}, data)))
refusals.install(sys)
variables.hide(_namespace)
_rehearse()
