"""ipykernel's program without what only a desktop needs: configuration files, start-up scripts, GUIs, a debugger."""

import logging
import os

import zmq
from IPython.core.profiledir import ProfileDir
from ipykernel import kernelapp
from ipykernel.kernelapp import IPKernelApp
from traitlets import Type, default
from traitlets.config import Config

from _cellwright import fork_pipe, furnish, interrupts, threads
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
        kernelapp.IOPubThread = fork_pipe.thread_class(os.path.dirname(self.connection_file))
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
    journal_fd = request.get("journalFd")
    furnish.redirect(app, None if journal_fd is None else Journal(journal_fd))
    furnish.furnish(app.shell, has_packages=bool(request.get("overlayDir")))
    app.start()
