"""ipykernel's kernel with variables in requests, interrupts that hit only the cell, and a reply in every case."""

import asyncio
import sys
from typing import Optional

from ipykernel.ipkernel import IPythonKernel
from traitlets import Type

from _cellwright import interrupts, own_packages, pip_lines, shell_lines, text_streams, variables
from _cellwright.ledger import Ledger
from _cellwright.outbox import Outbox
from _cellwright.output import Output
from _cellwright.shell import Shell

# Message types that belong to the cell whose code sends them, in whichever thread or task it runs.
_SHOWN = frozenset(("display_data", "update_display_data", "execute_result", "clear_output", "error"))


class CellKernel(IPythonKernel):
    shell_class = Type(Shell)

    output: Output
    outbox: Outbox
    # The state of its cells, for a server that lost its connection; see ledger.py.
    ledger: Optional[Ledger] = None

    def __init__(self, **options):
        super().__init__(**options)
        self.adapt()

    def adapt(self):
        """Called after ipykernel's own initialization."""
        self._execute_sleep = 0
        self.control_handlers["cellwright_request"] = self._answer
        self.control_handlers["cellwright_interrupt"] = self._make_sure_of_interrupt
        self.shell.adapt()

    def attach(self, output, outbox):
        """Sets where its cells' output goes."""
        self.output = output
        self.outbox = outbox
        self._send = self.session.send
        self.session.send = self._send_in_order

    # Signals are handled by interrupts.py alone.

    def pre_handler_hook(self):
        pass

    def post_handler_hook(self):
        pass

    def _publish_execute_input(self, code, parent, execution_count):
        """The first message of a cell that is not silent: the journal begins with it, and it names the cell."""
        self.outbox.begin_cell()
        super()._publish_execute_input(code, parent, execution_count)

    async def do_execute(self, code, silent, store_history=True, user_expressions=None, allow_stdin=False, **_about):
        request = self.get_parent("shell")
        header = request["header"]
        settings = request["metadata"].get("cellwright", {})
        shell = self.shell
        shell.code = code
        shell.failures = []
        shell.compile.is_silent = silent
        cell = self.output.begin(header)
        self._forward_input(allow_stdin)
        try:
            shell.begin_script(settings.get("script"))
            shell.value_style = settings.get("value")
            interrupts.begin(header["msg_id"])
            if settings:
                shell.user_ns.update(settings["values"])
                shell.user_ns.update(zip(settings["bytes"], map(bytes, request["buffers"])))
            shell.be_classic(settings.get("classic", False))
            shell.commands = settings.get("commands")
            await self._run(code, silent, store_history)
        except (Exception, KeyboardInterrupt, asyncio.CancelledError) as error:
            # Not raised by the cell's code, which the shell handles: an interrupt outside it, or an error of the shell.
            if not shell.failures:
                shell.showtraceback((type(error), error, error.__traceback__))
        finally:
            interrupts.end()
            self._restore_input()
        failures, shell.failures = shell.failures, None
        self.output.end(cell)
        for content in failures:
            self.show_failure(content)
        return {
            "status": "ok",
            "execution_count": shell.execution_count - 1,
            "payload": self._take_payload(),
            "user_expressions": {},
            **({"status": "error", **failures[0]} if failures else {}),
        }

    def _take_payload(self):
        """IPython's pager output."""
        manager = self.shell.payload_manager
        payload = manager.read_payload()
        manager.clear_payload()
        return payload

    async def _run(self, code, silent, store_history):
        shell = self.shell
        broken = None
        try:
            transformed = shell.transform_cell(code)
        except Exception:
            transformed = code
            broken = sys.exc_info()
        running = shell.run_cell_async(
            code,
            store_history=store_history,
            silent=silent,
            transformed_cell=transformed,
            preprocessing_exc_tuple=broken,
        )
        result = None
        try:
            if shell.should_run_async(code, transformed_cell=transformed, preprocessing_exc_tuple=broken):
                task = asyncio.ensure_future(running)
                with interrupts.Awaiting(task):
                    result = await task
            else:
                result = _run_at_once(running)
        finally:
            shell.events.trigger("post_execute")
            if not silent:
                shell.events.trigger("post_run_cell", result)

    def show_failure(self, content):
        """Sends an exception as output of the cell that raised it."""
        self.session.send(self.iopub_socket, "error", content, parent={}, ident=self._topic("error"))

    def raw_input(self, prompt=""):
        return self._typed(super().raw_input, prompt)

    def getpass(self, prompt="", stream=None, **_options):
        return self._typed(super().getpass, prompt)

    def _typed(self, request, prompt):
        """Asks the user if possible, else raises an EOFError with an explanation."""
        if self.shell.is_classic:
            return request(str(prompt))
        if not self._allow_stdin:
            raise EOFError(text_streams.NO_INPUT)
        try:
            return request(str(prompt))
        except EOFError:
            # The end of input means that the user declined.
            raise EOFError("The user was asked, and did not answer.") from None

    def _send_in_order(self, stream, message, content=None, parent=None, *args, **options):
        """Session.send that sends output after the text written before it, with the right cell as its parent."""
        kind = message if isinstance(message, str) else message["header"]["msg_type"]
        if kind == "execute_reply" and parent is not None and self.ledger is not None:
            self.ledger.replied(parent["header"]["msg_id"], content)
        if kind not in _SHOWN:
            return self._send(stream, message, content, parent, *args, **options)
        self.output.flush()
        if isinstance(message, str):
            message = self.session.msg(message, content=content)
        cell = self.output.cell
        if cell is not None:
            message = {**message, "parent_header": cell.source}
        if "data" in message["content"]:
            data = self.output.admit_bundle(message["content"]["data"])
            if data is None:
                return None
            message["content"] = {**message["content"], "data": data}
        return self._send(stream, message, None, None, *args, **options)

    def _answer(self, stream, ident, request):
        """Answers questions in the control thread, even while cells run. Runs no user code."""
        question = request["content"]
        answer = {}
        if "inspect" in question:
            answer = {"variables": variables.answer(self.shell.user_ns, question["inspect"])}
        elif "refresh" in question:
            answer = {"loaded": own_packages.refresh()}
        elif "pipLines" in question:
            answer = {"lines": self._pip_lines(question["pipLines"], **question)}
        elif "ledger" in question and self.ledger is not None:
            answer = self.ledger.answer(question["ledger"])
        self.session.send(stream, "cellwright_reply", answer, request, ident)

    def _pip_lines(self, code, commands=False, classic=False, **_question):
        code = shell_lines.translate(code, self.shell) if commands else code
        return pip_lines.find(pip_lines.marked(code) if classic else code)

    def _make_sure_of_interrupt(self, _stream, _ident, request):
        interrupts.ask(request["content"]["cell"], asyncio.get_event_loop())


def _run_at_once(running):
    """Code without a top-level await never waits."""
    try:
        running.send(None)
    except StopIteration as end:
        return end.value
    running.close()
    raise RuntimeError("The cell waits for something although it does not await.")
