"""Runs cells with the prelude in a Python of this machine: `cpython_cells.py <prelude folder> < cells.json > events.json`."""

import ast
import contextlib
import io
import json
import sys
import types

# The stand-ins beside this file are not meant here.
del sys.path[0]
package = sys.modules["_cellwright"] = types.ModuleType("_cellwright")
package.__path__ = [sys.argv[1]]

from _cellwright import mime, plots

events = []


def add(kind, data):
    events.append({"type": kind, "data": json.loads(mime.to_json({}, data))["data"]})


def run(code, namespace):
    tree = ast.parse(code)
    last = ast.Expression(tree.body.pop().value) if isinstance(tree.body[-1], ast.Expr) else None
    value = error = None
    try:
        exec(compile(tree, "<cell>", "exec"), namespace)
        value = last and eval(compile(last, "<cell>", "eval"), namespace)
        if value is not None:
            add("result", mime.bundle(value))
    except Exception as raised:
        error = raised
    plots.end_cell(value)
    if error is not None:
        events.append({"type": "error", "name": type(error).__name__})


class Printed(io.StringIO):
    def write(self, text):
        events.append({"type": "stream", "name": self.name, "text": text})


plots.install(lambda data: add("display", data))
namespace = {"display": lambda value: add("display", mime.bundle(value))}
stdout, stderr = Printed(), Printed()
stdout.name, stderr.name = "stdout", "stderr"
told = []
for code in json.load(sys.stdin):
    events = []
    with contextlib.redirect_stdout(stdout), contextlib.redirect_stderr(stderr):
        run(code, namespace)
    told.append(events)
json.dump(told, sys.stdout)
