"""What a process that a zygote has just forked does before it is a kernel."""

import json
import os
import signal
import sys
import time
import traceback


def become_kernel(request_fd, heartbeat_fd, report_fd):
    """
    Never returns. The request is ForkRequest of zygote.ts. Says on `report_fd` that all is well, or what went wrong, when
    it stands in its jail; who asked for it is answered then.
    """
    status = 1
    try:
        request = read_request(request_fd)
        leave_zygote(request["logFile"], keep=(heartbeat_fd, report_fd))
        # Opened here: in the jail these files are not to be seen.
        journal_fd = os.open(request["journalFile"], os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
        wall_in(request, keep=(journal_fd, heartbeat_fd, report_fd))
        time.tzset()
        widen(request.get("threads"))
        os.write(report_fd, b"ok")
        os.close(report_fd)
        report_fd = None
        from . import boot

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
    """Gives back what belongs to the zygote: its session, its signals, its descriptors, its place."""
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
                # The one that read the list.
                pass


def wall_in(request, keep):
    """Jail, limits and environment; in a jail the environment is the jail's own."""
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


def widen(threads):
    from . import preload

    preload.widen_thread_pools(threads or len(os.sched_getaffinity(0)))
