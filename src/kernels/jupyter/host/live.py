"""Turns a kernel that somebody else has started, and that runs this, into one of ours; see remote/boot.ts."""

import contextlib
import json
import os
import platform
import signal
import sys

import zmq
from ipykernel.ipkernel import IPythonKernel
from ipykernel.kernelapp import IPKernelApp

from _cellwright import furnish, interrupts, plots, threads
from _cellwright.kernel import CellKernel
from _cellwright.ledger import Ledger
from _cellwright.shell import Shell

# The server's own, which it hands to every program it starts.
_SECRETS = ("JUPYTER_TOKEN", "JUPYTERHUB_API_TOKEN", "JPY_API_TOKEN", "JPY_PARENT_PID")
_INLINE = "module://matplotlib_inline.backend_inline"


def become(request):
    """`workingDir`: absolute, or from the home of whoever runs the server. `language`: python, or bash."""
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
    furnish.redirect(app, app.kernel.ledger)
    # A server that cannot keep up is waited for.
    app.iopub_thread.schedule(lambda: app.iopub_thread.socket.setsockopt(zmq.XPUB_NODROP, 1))
    plots.install(furnish.show)
    furnish.furnish(app.shell, has_packages=False)
    interrupts.install()
    # A server answers when it has sent the signal.
    interrupts.trust()
    if is_bash:
        _about["shell"] = app.kernel.open_shell()


def _bash_kernel():
    from _cellwright.bash_kernel import BashKernel

    return BashKernel


_about = {"version": platform.python_version()}


class About:
    """What the server is told; IPython shows it by its repr."""

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
    """Cells of agents are not for the history of whoever runs the server."""
    # Versions differ in how that is done; one that cannot keeps it.
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
    """ipykernel's, which would send what is written to the descriptors a second time."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        stream._should_watch = False


def _end_at_once(stream, ident, request):
    """A kernel that is to end does not wait for its cell, nor do the programs that the cell has started."""
    kernel = IPKernelApp.instance().kernel
    kernel.session.send(stream, "shutdown_reply", {"status": "ok", **request["content"]}, request, ident)
    stream.flush(zmq.POLLOUT)
    if hasattr(kernel, "close_shell"):
        kernel.close_shell()
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
