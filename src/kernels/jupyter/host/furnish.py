"""What a kernel has that ipykernel's does not, put into place: whether ours started it or somebody else did."""

import builtins
import json
import logging
import re
import sys

from IPython.core.interactiveshell import InteractiveShell
from IPython.display import clear_output, display
from jupyter_client.session import json_default

from _cellwright import hints, mime, pip_lines, shell, typing_in, variables
from _cellwright.outbox import Outbox
from _cellwright.output import Output
from _cellwright.streams import Descriptors, Stream


def show(data):
    """Displays a MIME bundle in the output of the cell whose code asks for it."""
    ready = {kind: mime.json_ready(kind, form) for kind, form in data.items()}
    InteractiveShell.instance().display_pub.publish(ready)


def redirect(app, journal):
    """What cells show goes through our streams from now on; the journal, if there is one, keeps a copy."""
    outbox = Outbox(app.iopub_thread, app.iopub_socket, journal)
    output = Output(app.session, outbox)
    app.session.pack = _pack
    app.kernel.attach(output, outbox)
    Descriptors(output).capture()
    sys.stdout = sys.__stdout__ = Stream(output, "stdout", 1)
    sys.stderr = sys.__stderr__ = Stream(output, "stderr", 2)
    sys.stdin = sys.__stdin__ = typing_in.NoStdin()
    # ipykernel's own complaints would be shown as the newest cell's output.
    for logger in (app.log, logging.getLogger("tornado")):
        logger.handlers[:] = [logging.NullHandler()]


def furnish(ipython, has_packages):
    """What a cell expects to find."""
    ipython.display_pub.clear_output = shell.forget_shown(ipython.display_pub.clear_output)
    builtins.display = display
    builtins.clear_output = clear_output
    if has_packages:
        hints.offer_packages()
        ipython.ast_transformers.append(pip_lines.Replaced())
    variables.hide(ipython.user_ns)


_HALF = re.compile("[\ud800-\udfff]")


def _pack(value):
    text = json.dumps(value, default=json_default, allow_nan=False, ensure_ascii=False)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half a character can be said in JSON's own way only.
        return _HALF.sub(lambda half: "\\u%04x" % ord(half[0]), text).encode()
