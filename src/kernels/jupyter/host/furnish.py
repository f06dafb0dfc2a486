"""What a kernel has that ipykernel's does not, put into place: whether ours started it or somebody else did."""

import builtins
import functools
import json
import logging
import re
import sys

from IPython.core import magics
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import clear_output, display
from jupyter_client.session import json_default

from _cellwright import hints, mime, pip_lines, shell, text_streams, variables
from _cellwright.descriptors import Descriptors
from _cellwright.outbox import Outbox
from _cellwright.output import Output

# The newest IPython imports its magics when they are first used. Their classes fill one table while they are made: an
# interrupt in the middle of that would mix them up for as long as the kernel lives.
for _name in dir(magics):
    getattr(magics, _name)


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
    for name, fd in (("stdout", 1), ("stderr", 2)):
        stream = text_streams.Stream(name, fd, functools.partial(output.write, name), output.flush_and_wait)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)
    sys.stdin = sys.__stdin__ = text_streams.NoStdin()
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
