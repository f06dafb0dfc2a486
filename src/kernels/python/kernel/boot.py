"""Turns a Python process into a kernel, forked from a zygote or cold started."""

import os
import sys


def prepare():
    """
    The part that is possible before a fork and before a jail: imports, and import hooks for plotting libraries. Starts
    no thread and opens no file. A zygote calls this before it imports packages; `run` calls it, too.
    """
    if "_cellwright.app" in sys.modules:
        return
    _import_without_debugger()
    from _cellwright import app, plots, shell_setup  # noqa: F401

    plots.install(shell_setup.show)


def run(request):
    """
    Runs the kernel and never returns. `request`: connectionFile, workingDir, journalFd, heartbeatFd, ttlSeconds,
    overlayDir (see BootRequest in cold.ts). The caller sets up signals, descriptors 0 to 2, the session (`setsid`),
    the environment and the jail.
    """
    # ipykernel would end with the process that this names.
    os.environ.pop("JPY_PARENT_PID", None)
    # Defaults for plotting libraries. Set here, because a fork gets a new environment.
    os.environ.setdefault("MPLBACKEND", "Agg")
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")
    os.chdir(request["workingDir"])
    prepare()
    from _cellwright import app, orphan

    _set_import_path(request.get("overlayDir"))
    sys.argv = [""]
    # Forks of one process would produce the same random numbers. The standard library reseeds itself.
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    orphan.watch(request["heartbeatFd"], request["ttlSeconds"])
    app.run(request)


def _import_without_debugger():
    """The debugger is not used, and the search for debugpy takes a third of the kernel's import time."""
    if "ipykernel.ipkernel" in sys.modules:
        return
    # A None in sys.modules makes the import fail.
    modules: dict = sys.modules
    absent = object()
    found = modules.get("debugpy", absent)
    modules["debugpy"] = None
    try:
        import ipykernel.debugger
        import ipykernel.ipkernel  # noqa: F401
    finally:
        if found is absent:
            del modules["debugpy"]
        else:
            modules["debugpy"] = found


def _set_import_path(overlay_dir):
    """The working directory first, then the session's packages, then the environment's."""
    from _cellwright import own_packages

    path = [folder for folder in sys.path if folder]
    sys.path[:] = ["", *([overlay_dir] if overlay_dir else []), *path]
    if overlay_dir:
        own_packages.use(overlay_dir)
        # For programs that cells start.
        os.environ["PYTHONPATH"] = overlay_dir
        os.environ["PATH"] = os.pathsep.join([os.environ.get("PATH", os.defpath), os.path.join(overlay_dir, "bin")])
