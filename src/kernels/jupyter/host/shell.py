"""IPython's shell, as far as what it shows and how cells are named differs from a notebook's."""

import ast
import contextlib
import sys
import warnings

from IPython.core.compilerop import CachingCompiler
from ipykernel.zmqshell import ZMQInteractiveShell

from _cellwright import failure, interrupts, plots
from _cellwright.forms import Forms


class CellCompiler(CachingCompiler):
    """Cells are files with a name that means something to the reader of a traceback."""

    is_silent = False

    def get_code_name(self, raw_code, transformed_code, number):
        return f"{interrupts.CELL_FILES}{'silent' if self.is_silent else number}>"


class Shell(ZMQInteractiveShell):
    code = ""
    # Exceptions that a cell has raised, told at its end; None while no cell runs.
    failures = None
    _is_quiet = False
    _transformers = None

    def adapt(self):
        """After the shell has been made by its own ways."""
        self.compile = CellCompiler()
        self.compiler_class = CellCompiler
        self.user_ns["exit"] = self.user_ns["quit"] = _leave
        self.events.register("post_run_cell", self._show_figures)
        warnings.filterwarnings("ignore", message="To exit: use 'exit'")

    def init_display_formatter(self):
        self.display_formatter = Forms(parent=self)
        self.configurables.append(self.display_formatter)

    @contextlib.contextmanager
    def quietly(self):
        was_quiet, self._is_quiet = self._is_quiet, True
        try:
            yield
        finally:
            self._is_quiet = was_quiet

    def transform_cell(self, raw_cell):
        """IPython's own words are no Python, so what is Python has none. Looking for them takes much longer."""
        if self._is_as_delivered() and _is_python(raw_cell):
            return raw_cell if raw_cell.endswith("\n") else raw_cell + "\n"
        return super().transform_cell(raw_cell)

    def _is_as_delivered(self):
        """Whether nobody has added transformations, or asked for words without a mark."""
        manager = self.input_transformer_manager
        counts = tuple(map(len, (manager.cleanup_transforms, manager.line_transforms, manager.token_transformers)))
        if self._transformers is None:
            self._transformers = counts
        is_marked = not self.automagic and not self.autocall
        return is_marked and not self.input_transformers_post and counts == self._transformers

    async def run_code(self, code_obj, result=None, *, async_=False):
        interrupts.check()
        return await super().run_code(code_obj, result, async_=async_)

    def showtraceback(self, exc_tuple=None, *_args, **_options):
        if not self._is_quiet:
            self._report(self._get_exc_info(exc_tuple)[1])

    def showsyntaxerror(self, *_args, **_options):
        self._report(self._get_exc_info()[1])

    def _format_exception_for_storage(self, exception, *_args, **_options):
        """For IPython's history, which would put it into words a second time, and at length."""
        return {"ename": type(exception).__name__, "evalue": "", "traceback": []}

    def enable_matplotlib(self, gui=None):
        """Figures are shown by our own backend (see prelude/plots.py), whichever is asked for."""
        return gui or "inline", "agg"

    def _report(self, error):
        name, message, lines = failure.describe(error, self.code)
        told = {"ename": name, "evalue": message, "traceback": lines}
        if self.failures is None:
            self.kernel.show_failure(told)
        else:
            # After the figures that were open when it happened.
            self.failures.append(told)

    def _show_figures(self, result):
        error = result.error_in_exec or result.error_before_exec if result is not None else None
        value = result.result if result is not None else None
        try:
            with interrupts.Drawing():
                plots.end_cell(value, interrupts.happened() and (result is None or error is not None))
        except KeyboardInterrupt as interrupt:
            self._report(interrupt)


def _is_python(code):
    try:
        with warnings.catch_warnings():
            # They come again when the cell is compiled.
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
