"""
Imports packages in advance and forks a kernel per session: `python -I zygote.py`, with its settings on stdin.

All its kernels can read its command line and initial environment, so no settings are passed there.
"""

import fcntl
import json
import os
import signal
import sys
import types

# With -I, the script's folder is not on the import path, so kernels and packages do not find our files.
our_folder = os.path.dirname(os.path.abspath(__file__))


def main():
    text = sys.stdin.readline()
    settings = json.loads(text)
    make_package("_cellwright_jail", settings["jailFolder"])
    if settings.get("enclosure"):
        from _cellwright_jail import enclosure

        # Before any import from the environment. Irreversible: after `start_again`, the process is still in it.
        enclosure.enter(settings.pop("enclosure"))
    os.chdir(settings["stateDir"])
    if not lock(settings["name"] + ".lock"):
        say({"busy": True})
        return
    os.environ.update(settings["env"])
    make_package("_cellwright", our_folder, *settings["folders"])
    # Everything that a fork runs is imported before the fork.
    from _cellwright import fork_server, forked_kernel, preload
    from _cellwright_jail import jail, linux  # noqa: F401

    # A Ctrl-C in the server's terminal must not end the zygote.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        loaded = preload.load(settings["preload"], settings["left"])
    except preload.ThreadStarted as culprit:
        if culprit.module is None:
            say({"error": str(culprit)})
            return
        settings["left"][culprit.module] = str(culprit)
        start_again(settings)
    server = fork_server.ForkServer(
        socket_path=settings["name"] + ".sock",
        requests_folder=settings["name"] + ".forks",
        idle_seconds=settings["idleSeconds"],
        hello={
            "pid": os.getpid(),
            "start": fork_server.start_of(os.getpid()),
            "loaded": loaded,
            "left": settings["left"],
        },
    )
    server.listen()
    preload.freeze()
    linux.adopt_orphans()
    say({"ready": True})
    silence()
    try:
        server.serve()
        return
    except fork_server.Forked as forked:
        descriptors = forked.descriptors
    # Only a new process gets here, without the server's frames on its stack.
    del server
    forked_kernel.become_kernel(*descriptors)


def lock(path):
    """Held for the process's lifetime: of two zygotes with the same name, only one continues."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_package(name, *folders):
    """Makes our files importable as a package that is not on the import path."""
    package = types.ModuleType(name)
    package.__path__ = list(folders)
    sys.modules[name] = package


def start_again(settings):
    """A thread cannot be removed, and a fork would lack it, perhaps with a lock that it held: so exec again."""
    read, write = os.pipe()
    os.write(write, json.dumps(settings).encode() + b"\n")
    os.close(write)
    os.dup2(read, 0)
    os.execv(sys.executable, [sys.executable, "-I", os.path.join(our_folder, "zygote.py")])


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def silence():
    """Closes the pipes to the server, which may end before this process."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


main()
