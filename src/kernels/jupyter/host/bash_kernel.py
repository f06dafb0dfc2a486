"""A kernel whose cells are not Python: it hands them to a shell of its own."""

import asyncio
import signal

from _cellwright import bash_lines
from _cellwright.bash_process import BashProcess
from _cellwright.kernel import CellKernel


class BashKernel(CellKernel):
    _shell = None
    _running = None

    def open_shell(self):
        self._named = set()
        # The server's signal is for Python cells; ours are interrupted by a message that names them. Before the shell
        # is started: what is ignored here would be ignored there.
        signal.signal(signal.SIGINT, lambda *_args: None)
        self._shell = BashProcess(self.output, self._tell_end)
        return self._shell.version

    def close_shell(self):
        self._shell.end()

    async def do_execute(self, code, silent, *_args, **_about):
        request = self.get_parent("shell")
        cell = self.output.begin(request["header"])
        if not silent:
            self.shell.execution_count += 1
        variables = _variables(request)
        refusal = bash_lines.obstacle(code, variables)
        failure = {"ename": "InvalidCell", "evalue": refusal} if refusal else None
        if not refusal:
            failure = await self._run_cell(code, silent, variables, cell)
        self.output.end(cell)
        told = {} if failure is None else {"status": "error", "traceback": [], **failure}
        if failure:
            self.show_failure({"traceback": [], **failure})
        count = self.shell.execution_count - 1
        return {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}, **told}

    async def _run_cell(self, code, silent, variables, cell):
        loop = asyncio.get_running_loop()
        ended = loop.create_future()

        def done(status):
            loop.call_soon_threadsafe(ended.set_result, status)

        run = self._shell.run(code, variables, cell, done)
        cell_id = cell.header["msg_id"]
        self._running = (cell_id, run)
        if cell_id in self._named:
            self._shell.interrupt(run)
        status = await ended
        self._running = None
        if status is None:
            return {"ename": "ShellEnded", "evalue": "the shell has ended"}
        if not silent:
            self._shell.remember(status)
        return _failure(run, status)

    def _make_sure_of_interrupt(self, _stream, _ident, request):
        """In the control thread."""
        cell_id = request["content"]["cell"]
        self._named.add(cell_id)
        running = self._running
        if running is not None and running[0] == cell_id:
            self._shell.interrupt(running[1])

    def _tell_end(self, code):
        """In the shell's thread: with it goes the kernel; the server, which reads this, ends it."""
        self.output.flush()
        cell = self.output.latest
        parent = None if cell is None else cell.header
        self.session.send(self.iopub_socket, "cellwright_ended", {"code": code}, parent=parent)


def _variables(request):
    beside = request["metadata"].get("cellwright") or {}
    values = dict(beside.get("values", {}))
    values.update(zip(beside.get("bytes", []), map(bytes, request["buffers"])))
    return values


def _failure(run, status):
    if run.begun and status == 0:
        return None
    if run.interrupt_wanted:
        return {"ename": "Interrupted", "evalue": "the cell was interrupted"}
    if not run.begun:
        return {"ename": "CellNotRun", "evalue": "a signal reached the shell before the cell began"}
    try:
        name = " (%s)" % signal.Signals(status - 128).name if status > 128 else ""
    except ValueError:
        name = ""
    return {"ename": "ExitCode", "evalue": "exit code %d%s" % (status, name)}
