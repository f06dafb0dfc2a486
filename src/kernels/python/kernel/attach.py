"""Adds our extensions to a running kernel that a Jupyter server started; see remote/boot.ts."""

import contextlib
import json
import os
import platform
import sys

import zmq
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from _cellwright import interrupts, orphan, plots, shell_setup, threads
from _cellwright.kernel import CellKernel
from _cellwright.ledger import Ledger
from _cellwright.shell import Shell

# The server's own variables, which every process it starts inherits.
_SECRETS = ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JPY_PARENT_PID")
_INLINE = "module://matplotlib_inline.backend_inline"


def become(request):
    """
    `workingDir`: absolute, or relative to the home of the server's user. `language`: python or bash. `shell`: the lines
    to send to a shell; see kernels/shell/driver.ts.
    """
    app = IPKernelApp.instance()
    if not isinstance(app.kernel, IPythonKernel):
        raise RuntimeError("the server's `python3` is not ipykernel")
    _enter(request["workingDir"])
    _set_environment()
    _keep_no_history(app.shell)
    app.shell.__class__ = Shell
    app.shell.init_display_formatter()
    app.shell.colors = "nocolor"
    app.shell.automagic = False
    is_bash = request.get("language") == "bash"
    app.kernel.__class__ = _bash_kernel() if is_bash else CellKernel
    app.kernel.adapt()
    _keep_ledger(app.kernel)
    app.kernel.control_handlers["shutdown_request"] = _end_at_once
    threads.keep_context()
    _release_streams()
    shell_setup.redirect(app, app.kernel.ledger)
    # Back-pressure: block instead of dropping messages if the server is slow.
    app.iopub_thread.schedule(lambda: app.iopub_thread.socket.setsockopt(zmq.XPUB_NODROP, 1))
    plots.install(shell_setup.show)
    shell_setup.set_up(app.shell, has_packages=False)
    interrupts.install()
    # The Jupyter server answers an interrupt request only after it has sent the signal.
    interrupts.trust()
    if is_bash:
        _about["shell"] = app.kernel.open_shell(request["shell"])


def _bash_kernel():
    from _cellwright.bash_kernel import BashKernel

    return BashKernel


_about = {"version": platform.python_version()}


class About:
    """The kernel's description for the server; IPython sends its repr."""

    def __repr__(self):
        return json.dumps({**_about, "pid": os.getpid(), "workingDir": os.getcwd()})


def _enter(folder):
    path = os.path.join(os.path.expanduser("~"), folder)
    mask = os.umask(0o077)
    try:
        os.makedirs(path, exist_ok=True)
    finally:
        os.umask(mask)
    os.chdir(path)
    sys.path[:] = ["", *(entry for entry in sys.path if entry)]
    sys.argv = [""]


def _set_environment():
    for name in _SECRETS:
        os.environ.pop(name, None)
    if os.environ.get("MPLBACKEND", _INLINE) == _INLINE:
        os.environ["MPLBACKEND"] = "Agg"
    os.environ.setdefault("PLOTLY_RENDERER", "plotly_mimetype")


def _keep_no_history(shell):
    """Keeps agents' cells out of the IPython history of the server's user."""
    # IPython versions differ; if this fails, the history stays on.
    with contextlib.suppress(Exception):
        manager = shell.history_manager
        if manager.save_thread is not None:
            manager.save_thread.stop()
            manager.save_thread = None
        manager.using_thread = False
        manager.db.close()
        manager.hist_file = ":memory:"
        manager.init_db()
        manager.new_session()


def _keep_ledger(kernel):
    kernel.ledger = Ledger()
    kernel.shell_handlers["execute_request"] = kernel.ledger.once(kernel.execute_request)


def _release_streams():
    """Detaches ipykernel's streams, which would send writes to the descriptors a second time."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        stream._should_watch = False  # pyright: ignore[reportAttributeAccessIssue]


def _end_at_once(stream, ident, request):
    """Shuts down without waiting for the running cell, and kills the programs that it started."""
    kernel = IPKernelApp.instance().kernel
    kernel.session.send(stream, "shutdown_reply", {"status": "ok", **request["content"]}, request, ident)
    stream.flush(zmq.POLLOUT)
    if hasattr(kernel, "close_shell"):
        kernel.close_shell()
    orphan.end_all()
