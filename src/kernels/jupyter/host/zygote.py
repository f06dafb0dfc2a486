"""
A process that has imported what kernels need and forks one for each session: `python -I zygote.py`, settings on stdin.

Its command line and first environment stay readable in all its kernels, so nothing is said there.
"""

import fcntl
import json
import os
import signal
import sys
import types

# Isolated, Python does not look for modules beside its script: neither kernels nor packages find our files there.
our_folder = os.path.dirname(os.path.abspath(__file__))


def main():
    text = sys.stdin.readline()
    settings = json.loads(text)
    make_package("_cellwright_jail", settings["jailFolder"])
    if settings.get("enclosure"):
        from _cellwright_jail import enclosure

        # Before anything of the environment is imported. For good: one that starts again is in it already.
        enclosure.enter(settings.pop("enclosure"))
    os.chdir(settings["stateDir"])
    if not lock(settings["name"] + ".lock"):
        say({"busy": True})
        return
    os.environ.update(settings["env"])
    make_package("_cellwright", our_folder, *settings["folders"])
    # Imported before a fork, like all that a fork will run.
    from _cellwright_jail import jail, linux
    from _cellwright import fork_server, newborn, preload

    # What is typed at the server's terminal is not for its detached zygote.
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
        hello={"pid": os.getpid(), "start": fork_server.start_of(os.getpid()), "loaded": loaded, "left": settings["left"]},
    )
    server.listen()
    preload.freeze()
    linux.adopt_orphans()
    say({"ready": True})
    silence()
    try:
        server.serve()
        return
    except fork_server.Born as born:
        descriptors = born.descriptors
    # Only a new process comes here, with none of the server's frames below it.
    del server
    newborn.become_kernel(*descriptors)


def lock(path):
    """Held as long as this process lives: of two that are started for one name, one goes on."""
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def make_package(name, *folders):
    """Our files are modules of a package, whose name nobody else uses, and which no search finds."""
    package = types.ModuleType(name)
    package.__path__ = list(folders)
    sys.modules[name] = package


def start_again(settings):
    """A thread cannot be taken back, and would not be there in a fork, perhaps with a lock that it held."""
    read, write = os.pipe()
    os.write(write, json.dumps(settings).encode() + b"\n")
    os.close(write)
    os.dup2(read, 0)
    os.execv(sys.executable, [sys.executable, "-I", os.path.join(our_folder, "zygote.py")])


def say(message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def silence():
    """Whoever started us has heard all, and may be gone before we are."""
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.close(null)


main()
