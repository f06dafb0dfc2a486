"""Runs shell commands in the session's working directory, which they may change."""

import os
import re
import shutil
import signal
import subprocess
import sys

import psutil

# On a replay, only `cd` runs again: changes of files are still there, the working directory is not.
_GOES_ELSEWHERE = re.compile(r"\s*cd(?:\s+[^;&|<>`$(){}\\]*)?$")

_before = None


def run(script, is_again=False, tells_folder=False):
    """Returns the exit status. `is_again`: a replay of a cell that ran in another kernel."""
    global _before
    if is_again:
        script = "\n".join(line for line in script.split("\n") if _GOES_ELSEWHERE.match(line))
        if not script:
            return 0
    folder = os.getcwd()
    read_end, write_end = os.pipe()
    try:
        status = _wait_for(_start(script, write_end))
        os.close(write_end)
        write_end = None
        os.set_blocking(read_end, False)
        _go(_told(read_end), folder)
    finally:
        os.close(read_end)
        if write_end is not None:
            os.close(write_end)
    if tells_folder and status == 0 and not is_again and not script.endswith("-"):
        print(os.getcwd())
    return status


def run_apart(script):
    """Runs a command after `!`, which does not change the session's directory."""
    return _wait_for(
        subprocess.Popen(["bash" if shutil.which("bash") else "sh", "-c", script], stdin=subprocess.DEVNULL)
    )


def _start(script, report):
    environment = {**os.environ, **({"OLDPWD": _before} if _before else {})}
    bash = shutil.which("bash")
    # The trap reports the shell's directory, however it exits.
    command = (
        [bash, "-c", f'trap "builtin pwd >&{report}" EXIT; eval "$1"', "bash", script] if bash else ["sh", "-c", script]
    )
    # Output goes to the cell's descriptors.
    return subprocess.Popen(command, stdin=subprocess.DEVNULL, env=environment, pass_fds=(report,))


def _wait_for(process):
    try:
        status = process.wait()
    except BaseException:
        _stop(process)
        raise
    return status if status >= 0 else 128 - status


def _stop(process):
    """The command is in the kernel's process group, so that it ends with the kernel: it has no group to signal."""
    try:
        top = psutil.Process(process.pid)
        # Including the shell, which would otherwise continue with its next command.
        family = [top, *top.children(recursive=True)]
    except psutil.Error:
        return
    _signal(family, signal.SIGINT)
    _, alive = psutil.wait_procs(family, timeout=0.5)
    _signal(alive, signal.SIGKILL)
    process.wait()


def _signal(family, number):
    for each in family:
        try:
            each.send_signal(number)
        except psutil.Error:
            pass


def _told(read_end):
    try:
        return os.fsdecode(os.read(read_end, 65_536)).rstrip("\n")
    except BlockingIOError:
        return ""


def _go(folder, before):
    global _before
    if not folder or folder == before:
        return
    try:
        os.chdir(folder)
    except OSError as error:
        print(f"cd: {error}", file=sys.stderr)
        return
    _before = before
