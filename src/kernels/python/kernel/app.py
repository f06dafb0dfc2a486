"""ipykernel's application without desktop features: configuration files, start-up scripts, GUIs, the debugger."""

import logging
import os

import zmq
from ipykernel import kernelapp
from ipykernel.kernelapp import IPKernelApp
from IPython.core.profiledir import ProfileDir
from traitlets import Type, default
from traitlets.config import Config

from _cellwright import fork_pipe, interrupts, shell_setup, threads
from _cellwright.journal import Journal
from _cellwright.kernel import CellKernel
from _cellwright.outbox import HIGH_WATER_MARK


class KernelApp(IPKernelApp):
    kernel_class = Type(CellKernel)
    default_extensions = []
    exec_PYTHONSTARTUP = False

    def load_config_file(self, *_args, **_options):
        pass

    @default("ipython_dir")
    def _beside_connection_file(self):
        """IPython requires a folder. This one is removed with the session."""
        return os.path.join(os.path.dirname(self.connection_file), "ipython")

    def init_profile_dir(self):
        self.profile_dir = ProfileDir.create_profile_dir(self.ipython_dir, config=self.config)

    def init_control(self, context):
        super().init_control(context)
        # Cells of a session run one after another: the thread that dispatches them to subshells only costs time.
        self.shell_channel_thread = None

    def init_iopub(self, context):
        # For the next socket. Back-pressure: block instead of dropping messages if the server is slow.
        context.setsockopt(zmq.SNDHWM, HIGH_WATER_MARK)
        context.setsockopt(zmq.XPUB_NODROP, 1)
        kernelapp.IOPubThread = fork_pipe.thread_class(os.path.dirname(self.connection_file))
        try:
            super().init_iopub(context)
        finally:
            context.sockopts.clear()

    def init_io(self):
        """Output is redirected only after a successful start; until then, errors go to the parent process."""
        self.displayhook = self

    def get_execution_count(self):
        return self.kernel.execution_count

    def init_signal(self):
        interrupts.install()

    def init_heartbeat(self):
        """Not needed: the server watches the process."""

    def write_connection_file(self, **_options):
        """Not needed: the server has written it."""

    def log_connection_info(self):
        pass

    def init_gui_pylab(self):
        pass


def run(request):
    config = Config()
    config.InteractiveShell.colors = "nocolor"
    config.HistoryManager.hist_file = ":memory:"
    # Without a % or !, a shell command in a cell is an error, with a hint.
    config.InteractiveShell.automagic = False
    app = KernelApp.instance(
        config=config,
        connection_file=request["connectionFile"],
        log_level=logging.ERROR,
    )
    # The shell looks up the folder separately.
    os.environ["IPYTHONDIR"] = app.ipython_dir
    app.initialize([])
    del os.environ["IPYTHONDIR"]
    threads.keep_context()
    shell_setup.redirect(app, Journal(request["journalFd"]))
    shell_setup.set_up(app.shell, has_packages=bool(request.get("overlayDir")))
    app.start()
