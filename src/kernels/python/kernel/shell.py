"""IPython's shell, with other output and other names of cells than in a notebook."""

import ast
import os
import sys
import warnings

from ipykernel.zmqshell import ZMQInteractiveShell
from IPython.core import formatters
from IPython.core.compilerop import CachingCompiler
from IPython.core.error import UsageError
from IPython.utils import process

from _cellwright import exception_text, failure, interrupts, plots, shell_commands, shell_lines
from _cellwright.display_formatter import BoundedFormatter


class CellCompiler(CachingCompiler):
    """Gives cells file names that are meaningful in tracebacks."""

    is_silent = False

    def get_code_name(self, raw_code, transformed_code, number):
        if interrupts.script_file is not None:
            return interrupts.script_file
        return f"{interrupts.CELL_FILES}{'silent' if self.is_silent else number}>"


class Shell(ZMQInteractiveShell):
    code = ""
    # Exceptions that the cell has raised, reported at its end; None while no cell runs.
    failures = None
    # `run`: run lines that are shell commands. `again`: the cell is being replayed. None: only Python.
    commands = None
    # Whether cells run and failures are reported as in plain IPython.
    is_classic = False
    # The options of a cell that runs as a script; None for a notebook's cell.
    script = None
    # How to report the cell's value as JSON; None: not at all.
    value_style = None
    _transformers = None

    def adapt(self):
        """Called after IPython's own initialization."""
        self.compile = CellCompiler()
        self.compiler_class = CellCompiler
        self.user_ns["exit"] = self.user_ns["quit"] = _leave
        self.events.register("post_run_cell", self._show_figures)
        self.displayhook.compute_format_data = self._forms_of_result
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")

    def init_display_formatter(self):
        self.display_formatter = BoundedFormatter(parent=self)
        self.configurables.append(self.display_formatter)

    def transform_cell(self, raw_cell):
        """IPython's syntax is not valid Python, so valid Python skips the transformation, which takes much longer."""
        if self.commands:
            raw_cell = shell_lines.translate(raw_cell, self)
        if self._is_as_delivered() and _is_python(raw_cell):
            return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        return super().transform_cell(raw_cell)

    def _is_as_delivered(self):
        """Whether no transformations were added, and magics without % are off."""
        manager = self.input_transformer_manager
        counts = tuple(map(len, (manager.cleanup_transforms, manager.line_transforms, manager.token_transformers)))
        if self._transformers is None:
            self._transformers = counts
        is_marked = not self.automagic and not self.autocall
        return is_marked and not self.input_transformers_post and counts == self._transformers

    async def run_code(self, code_obj, result=None, *, async_=False):
        interrupts.check()
        return await super().run_code(code_obj, result, async_=async_)

    def system(self, cmd):
        """`!command`, as in IPython; without pseudo-terminals, directly on the cell's descriptors."""
        if cmd.rstrip().endswith("&"):
            raise OSError("Background processes not supported.")
        # Variables in the command are the caller's.
        command = self.var_expand(cmd, depth=1)
        self.user_ns["_exit_code"] = process.system(command) if _has_terminals() else shell_commands.run_apart(command)

    def run_shell(self, script, tells_folder=False):
        """Runs a line that is a shell command; see shell_lines.py."""
        status = shell_commands.run(script, is_again=self.commands == "again", tells_folder=tells_folder)
        if status != 0:
            said = f"command exited with status {status}"
            self._show_failure({"ename": said, "evalue": "", "traceback": [said]})

    def showtraceback(self, exc_tuple=None, *args, **options):
        if sys._getframe(1).f_globals is vars(formatters):
            # A failing form is left out silently.
            return
        error = exception_text.meant(self._get_exc_info(exc_tuple)[1])
        if self.is_classic and not isinstance(error, UsageError):
            failure.leave_out_own(error)
            super().showtraceback((type(error), error, error.__traceback__), *args, **options)
        else:
            self._report(error)

    def showsyntaxerror(self, *args, **options):
        if self.is_classic:
            super().showsyntaxerror(*args, **options)
        else:
            self._report(self._get_exc_info()[1])

    def _showtraceback(self, etype, evalue, stb):
        """A traceback that IPython has formatted."""
        self._show_failure({"ename": etype.__name__, "evalue": str(evalue), "traceback": stb})

    def be_classic(self, is_classic):
        if is_classic != self.is_classic:
            self.is_classic = self.automagic = is_classic

    def _format_exception_for_storage(self, exception, *_args, **_options):
        """For IPython's history, for which the traceback would be formatted a second time."""
        return {"ename": type(exception).__name__, "evalue": "", "traceback": []}

    def enable_matplotlib(self, gui=None):
        """Figures are always shown by our own backend (see prelude/plots.py)."""
        return gui or "inline", "agg"

    def begin_script(self, script):
        """None: the cell is not a script."""
        self.script = script
        interrupts.script_file = script and script["filename"]

    def _forms_of_result(self, value):
        data, metadata = self.display_formatter.format(value)
        if self.value_style:
            from _cellwright import value_json

            data[value_json.KIND] = value_json.form(value, self.value_style)
        return data, metadata

    def _report(self, error):
        name, message, lines = failure.describe(error, self.code)
        self._show_failure({"ename": name, "evalue": message, "traceback": lines})

    def _show_failure(self, content):
        if self.failures is None:
            self.kernel.show_failure(content)
        else:
            # Sent after the figures that were open when it happened.
            self.failures.append(content)

    def _show_figures(self, result):
        error = result.error_in_exec or result.error_before_exec if result is not None else None
        value = result.result if result is not None else None
        try:
            with interrupts.Drawing():
                plots.end_cell(value, interrupts.happened() and (result is None or error is not None))
        except KeyboardInterrupt as interrupt:
            self._report(interrupt)


def _has_terminals():
    """A jail without namespaces has no pseudo-terminals: they would be the host's."""
    try:
        ends = os.openpty()
    except OSError:
        return False
    for end in ends:
        os.close(end)
    return True


def _is_python(code):
    try:
        with warnings.catch_warnings():
            # They are issued again when the cell is compiled.
            warnings.simplefilter("ignore")
            ast.parse(code)
        return True
    except Exception:
        return False


def _leave(code=None):
    """Ends the cell, not the kernel."""
    raise SystemExit(code)


def forget_shown(clear_output):
    """`clear_output`, after which figures may be shown again."""

    def clear(wait=False):
        clear_output(wait=wait)
        plots.forget_shown()

    clear.__doc__ = sys.modules["IPython.core.display_functions"].clear_output.__doc__
    return clear
