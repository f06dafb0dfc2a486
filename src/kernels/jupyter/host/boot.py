"""Turns a Python process into a kernel: one that a zygote forked, or one that was started for it."""

import os
import sys


def prepare():
    """
    What can be done before a fork and before a jail: imports, and hooks on plotting libraries that may be imported
    after it. Starts no thread, opens nothing. A zygote calls this before it imports anything else; `run` does too.
    """
    if "_cellwright.app" in sys.modules:
        return
    _import_without_debugger()
    from _cellwright import app, furnish, plots  # noqa: F401

    plots.install(furnish.show)


def run(request):
    """
    Runs the kernel and never returns. `request`: connectionFile, workingDir, journalFd, heartbeatFd, ttlSeconds,
    overlayDir, preludeDir, hostDir (see BootRequest in cold.ts). Signals, descriptors 0 to 2, the session (`setsid`),
    the environment and the jail are the caller's business; randomness is looked after here.
    """
    # A kernel that is told of a parent ends with it.
    os.environ.pop("JPY_PARENT_PID", None)
    # Libraries that draw ask these; a fork has an environment of its own.
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")
    os.chdir(request["workingDir"])
    prepare()
    from _cellwright import app, orphan

    _set_import_path(request.get("overlayDir"))
    sys.argv = [""]
    # Forks of one process would draw the same numbers. The standard library sees to itself.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    if request.get("heartbeatFd") is not None:
        orphan.watch(request["heartbeatFd"], request.get("ttlSeconds", orphan.DEFAULT_TTL_SECONDS))
    app.run(request)


def _import_without_debugger():
    """Nobody debugs cells over the wire, and looking for debugpy is a third of the kernel's import time."""
    if "ipykernel.ipkernel" in sys.modules:
        return
    absent = object()
    found = sys.modules.get("debugpy", absent)
    sys.modules["debugpy"] = None
    try:
        import ipykernel.debugger
        import ipykernel.ipkernel  # noqa: F401
    finally:
        if found is absent:
            del sys.modules["debugpy"]
        else:
            sys.modules["debugpy"] = found


def _set_import_path(overlay_dir):
    """The workspace first, then the session's own packages, then the environment's."""
    from _cellwright import own_packages

    path = [folder for folder in sys.path if folder]
    sys.path[:] = ["", *([overlay_dir] if overlay_dir else []), *path]
    if overlay_dir:
        own_packages.use(overlay_dir)
        # For the Pythons and the programs that cells start.
        os.environ["PYTHONPATH"] = overlay_dir
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.join(overlay_dir, "bin")])
