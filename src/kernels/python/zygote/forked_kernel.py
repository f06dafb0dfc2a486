"""Turns a newly forked process into a kernel."""

import json
import os
import signal
import sys
import time
import traceback

from . import preload


def become_kernel(request_fd, heartbeat_fd, report_fd):
    """
    Never returns. The request is written by `#writeRequest` of zygote.ts. Reports `ok` on `report_fd` once it is in its
    jail, or what went wrong; the zygote then answers the server.
    """
    status = 1
    try:
        request = read_request(request_fd)
        leave_zygote(request["logFile"], keep=(heartbeat_fd, report_fd))
        # Opened here, because the jail does not show these files.
        journal_fd = os.open(request["journalFile"], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        enter_jail(request, keep=(journal_fd, heartbeat_fd, report_fd))
        time.tzset()
        preload.widen_thread_pools(len(os.sched_getaffinity(0)))
        os.write(report_fd, b"ok")
        os.close(report_fd)
        report_fd = None
        from _cellwright import boot

        boot.run(dict(request["boot"], journalFd=journal_fd, heartbeatFd=heartbeat_fd))
        status = 0
    except SystemExit as leaving:
        status = leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else 1
    except BaseException as error:
        traceback.print_exc()
        if report_fd is not None:
            os.write(report_fd, ("%s: %s" % (type(error).__name__, error)).encode()[:4000])
    finally:
        sys.stderr.flush()
        os._exit(status)


def read_request(fd):
    with open(fd, encoding="utf-8") as file:
        return json.load(file)


def leave_zygote(log_file, keep):
    """Detaches from the zygote: session, signal handlers, descriptors, working directory."""
    os.setsid()
    signal.set_wakeup_fd(-1)
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    null = os.open(os.devnull, os.O_RDONLY)
    log = os.open(log_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(null, 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    close_others({0, 1, 2, *keep})
    os.chdir("/")


def close_others(keep):
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                # The descriptor of the listing itself.
                pass


def enter_jail(request, keep):
    """Applies jail, limits and environment. A jail has its own environment."""
    policy, limits = request.get("jail"), request.get("limits")
    if policy is not None:
        from _cellwright_jail import jail

        jail.enter(policy, limits=limits, keep_fds=keep)
        return
    os.environ.clear()
    os.environ.update(request["env"])
    if limits is not None:
        from _cellwright_jail import limits as process_limits

        process_limits.join(limits)
        process_limits.apply(limits)
        process_limits.apply_open_files(limits)
