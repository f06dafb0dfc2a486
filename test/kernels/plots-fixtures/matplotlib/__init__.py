"""A stand-in for matplotlib with the same joints: backends by name, canvases and managers, pyplot's open figures."""

import os

rcParams = {"backend": os.environ.get("MPLBACKEND", "a window")}


def use(backend):
    rcParams["backend"] = backend
