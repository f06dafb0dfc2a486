"""Our extensions of ipykernel, for kernels that Cellwright or a Jupyter server started."""

import builtins
import functools
import json
import logging
import sys

from IPython.core import magics
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import clear_output, display
from jupyter_client.session import json_default

from _cellwright import hints, mime, pip_lines, shell, text_streams, variables
from _cellwright.descriptors import Descriptors
from _cellwright.outbox import Outbox
from _cellwright.output import Output

# New versions of IPython import magics on first use. Their classes register in one global table: an interrupt during
# that would corrupt it for the kernel's lifetime.
for _name in dir(magics):
    getattr(magics, _name)


def show(data):
    """Displays a MIME bundle in the output of the calling code's cell."""
    InteractiveShell.instance().display_pub.publish(mime.ready(data))


def redirect(app, journal):
    """From now on, cells' output goes through our streams; the journal keeps a copy."""
    outbox = Outbox(app.iopub_thread, app.iopub_socket, journal)
    output = Output(app.session, outbox)
    app.session.pack = _pack
    app.kernel.attach(output, outbox)
    Descriptors(output).capture()
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = text_streams.Stream(name, fd, functools.partial(output.write, name), output.flush_and_wait)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = sys.__stdin__ = text_streams.NoStdin()
    # ipykernel's log messages would appear in the newest cell's output.
    for logger in (app.log, logging.getLogger("tornado")):
        logger.handlers[:] = [logging.NullHandler()]


def set_up(ipython, has_packages):
    """Sets up the namespace and features for cells."""
    ipython.display_pub.clear_output = shell.forget_shown(ipython.display_pub.clear_output)
    builtins.__dict__.update(display=display, clear_output=clear_output)
    if has_packages:
        hints.offer_packages()
        ipython.ast_transformers.append(pip_lines.Replaced())
    variables.hide(ipython.user_ns)


def _pack(value):
    text = json.dumps(value, default=json_default, allow_nan=False, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return mime.escape_halves(text).encode()
