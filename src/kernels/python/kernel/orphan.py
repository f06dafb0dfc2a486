"""Ends an orphaned kernel: its server is gone, and no other server has adopted it."""

import os
import signal
import threading
import time

_LONGEST_NAP_SECONDS = 30


def watch(heartbeat_fd, ttl_seconds):
    """The server touches the heartbeat file while it is alive."""
    watcher = threading.Thread(target=_watch, args=(heartbeat_fd, ttl_seconds), name="orphan", daemon=True)
    watcher.start()


def _watch(heartbeat_fd, ttl_seconds):
    nap = min(_LONGEST_NAP_SECONDS, max(0.1, ttl_seconds / 2))
    stale_looks = 0
    # Twice, because after a suspend of the machine the heartbeat looks hours old.
    while stale_looks < 2:
        time.sleep(nap)
        age = time.time() - os.fstat(heartbeat_fd).st_mtime
        stale_looks = stale_looks + 1 if age > ttl_seconds else 0
    end_all()


def end_all():
    """Kills this process and the programs that it started."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpid(), signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
