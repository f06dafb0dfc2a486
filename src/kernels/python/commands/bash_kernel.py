"""A kernel that runs its cells in a shell."""

import asyncio
import signal

from _cellwright.bash_process import BashProcess
from _cellwright.kernel import CellKernel


class BashKernel(CellKernel):
    _shell: BashProcess
    _running = None

    def open_shell(self, script):
        """Called in the kernel's event loop, like all other methods unless noted."""
        self._loop = asyncio.get_running_loop()
        self._interrupted = set()
        # Shell cells are interrupted by a message that names them, not by the server's signal. Set before the shell
        # starts, which would inherit an ignored signal.
        signal.signal(signal.SIGINT, lambda *_args: None)
        self._shell = BashProcess(script, self._loop, self.output, self._report_exit)
        return self._shell.version

    def close_shell(self):
        """May be called in any thread."""
        self._shell.end()

    async def do_execute(self, code, silent, *_args, **_about):
        request = self.get_parent("shell")
        cell = self.output.begin(request["header"])
        if not silent:
            self.shell.execution_count += 1
        prepared = request["metadata"]["cellwright"]["values"]
        failure = {"ename": "InvalidCell", "evalue": prepared["refusal"]}
        if not prepared["refusal"]:
            failure = await self._run_cell(code, silent, prepared["assignments"], cell)
        self.output.end(cell)
        reply = {} if failure is None else {"status": "error", "traceback": [], **failure}
        if failure:
            self.show_failure({"traceback": [], **failure})
        count = self.shell.execution_count - 1
        return {"status": "ok", "execution_count": count, "payload": [], "user_expressions": {}, **reply}

    async def _run_cell(self, code, silent, assignments, cell):
        cell_id = cell.source["msg_id"]
        run = self._shell.run(code, assignments, cell)
        self._running = (cell_id, run)
        if cell_id in self._interrupted:
            self._shell.interrupt(run)
        status = await run.ended
        self._running = None
        if status is None:
            return {"ename": "ShellEnded", "evalue": "the shell has ended"}
        if not silent:
            self._shell.last_status = status
        return _failure(run, status)

    def _make_sure_of_interrupt(self, _stream, _ident, request):
        """Called in the control thread."""
        self._loop.call_soon_threadsafe(self._interrupt, request["content"]["cell"])

    def _interrupt(self, cell_id):
        self._interrupted.add(cell_id)
        if self._running is not None and self._running[0] == cell_id:
            self._shell.interrupt(self._running[1])

    def _report_exit(self, code):
        """The shell has ended: on this message, the server ends the kernel."""
        self.output.flush()
        cell = self.output.latest
        parent = None if cell is None else cell.source
        self.session.send(self.iopub_socket, "cellwright_ended", {"code": code}, parent=parent)


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
