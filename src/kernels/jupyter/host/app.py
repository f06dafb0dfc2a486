"""ipykernel's program without what only a desktop needs: configuration files, start-up scripts, GUIs, a debugger."""

import builtins
import json
import logging
import os
import re
import sys

import zmq
from IPython.core.profiledir import ProfileDir
from IPython.display import clear_output, display
from ipykernel.kernelapp import IPKernelApp
from jupyter_client.session import json_default
from traitlets import Type, default
from traitlets.config import Config

from _cellwright import hints, interrupts, mime, pip_lines, shell, threads, typing_in, variables
from _cellwright.journal import Journal
from _cellwright.kernel import CellKernel
from _cellwright.outbox import HIGH_WATER_MARK, Outbox
from _cellwright.output import Output
from _cellwright.streams import Descriptors, Stream


class KernelApp(IPKernelApp):
    kernel_class = Type(CellKernel)
    default_extensions = []
    exec_PYTHONSTARTUP = False

    def load_config_file(self, *_args, **_options):
        pass

    @default("ipython_dir")
    def _beside_connection_file(self):
        """IPython insists on a folder. This one goes with the session."""
        return os.path.join(os.path.dirname(self.connection_file), "ipython")

    def init_profile_dir(self):
        self.profile_dir = ProfileDir.create_profile_dir(self.ipython_dir, config=self.config)

    def init_control(self, context):
        super().init_control(context)
        # Cells of one session run one after another: a thread that would hand them to subshells only costs time.
        self.shell_channel_thread = None

    def init_iopub(self, context):
        # For the next socket: a server that cannot keep up is waited for.
        context.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        context.setsockopt(zmq.XPUB_NODROP, 1)
        try:
            super().init_iopub(context)
        finally:
            context.sockopts.clear()

    def init_io(self):
        """Output is redirected once all is well; until then a complaint is for whoever started this process."""
        self.displayhook = self

    def get_execution_count(self):
        return self.kernel.execution_count

    def init_signal(self):
        interrupts.install()

    def init_heartbeat(self):
        """The server watches the process itself."""

    def write_connection_file(self, **_options):
        """The server did."""

    def log_connection_info(self):
        pass

    def init_gui_pylab(self):
        pass


def run(request):
    config = Config()
    config.InteractiveShell.colors = "nocolor"
    config.HistoryManager.hist_file = ":memory:"
    # A cell that is a shell command should say so, and be told so.
    config.InteractiveShell.automagic = False
    app = KernelApp.instance(
        config=config,
        connection_file=request["connectionFile"],
        log_level=logging.ERROR,
    )
    # The shell looks for the folder on its own.
    os.environ["IPYTHONDIR"] = app.ipython_dir
    app.initialize([])
    del os.environ["IPYTHONDIR"]
    threads.keep_context()
    _redirect(app, request.get("journalFd"))
    _furnish(app.shell, request)
    app.start()


def show(data):
    """Displays a MIME bundle in the output of the cell whose code asks for it."""
    ready = {kind: mime.json_ready(kind, form) for kind, form in data.items()}
    KernelApp.instance().shell.display_pub.publish(ready)


def _redirect(app, journal_fd):
    journal = None if journal_fd is None else Journal(journal_fd)
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


def _furnish(ipython, request):
    """What a cell expects to find."""
    ipython.display_pub.clear_output = shell.forget_shown(ipython.display_pub.clear_output)
    builtins.display = display
    builtins.clear_output = clear_output
    if request.get("overlayDir"):
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
