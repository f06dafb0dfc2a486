"""The walls of jail.ts, built by a process around itself after a fork. Standard library only; Linux.

The files of this folder are a package, so that none of their names is taken from user code. A zygote loads it with

    package = types.ModuleType("_cellwright_jail")
    package.__path__ = [the folder, `jailHostDir` of fork-jail.ts]
    sys.modules["_cellwright_jail"] = package
    from _cellwright_jail import jail

and in a fork with one thread calls

    jail.enter(policy, seccomp=filter_bytes, limits=process_limits, keep_fds=(journal_fd, heartbeat_fd))

with the Jail of jail.ts and the ProcessLimits of limits.ts as parsed JSON, and the bytes of seccomp.ts. It returns in
the jailed process only, which is pid 2 of its own pid namespace. All descriptors above 2 are closed but those to keep.
The calling process becomes the supervisor and never returns: SIGINT and SIGTERM sent to it reach the jailed process, its
exit status is the jailed process's (128 + n for a signal), and SIGKILL to it ends all that is inside. An OSError: the
walls could not be built, and nothing was run.
"""

import os
import select
import signal

from . import forward, limits as process_limits, linux

# Shown as the owner of all that the server's user owns.
_UID = 1000
_PROXY_PORT = 3128
_HOST_NAME = b"cellwright"
# Files of its own in /tmp and in /dev/shm: each takes some memory, an empty one too.
_MAX_FILES_IN_MEMORY = 200000
_MB = 1024 * 1024

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)
_READ_ONLY_PROC = ("sys", "sysrq-trigger", "irq", "bus", "mtrr")
# As in bubblewrap.ts.
_COVERED_PROC = (
    "acpi",
    "asound",
    "fs",
    "iomem",
    "kallsyms",
    "kcore",
    "keys",
    "kmsg",
    "kpagecgroup",
    "kpagecount",
    "kpageflags",
    "latency_stats",
    "pagetypeinfo",
    "pressure",
    "sched_debug",
    "scsi",
    "slabinfo",
    "timer_list",
    "vmallocinfo",
)
_PASSED_ON = (signal.SIGINT, signal.SIGTERM)


def enter(policy, seccomp=None, limits=None, keep_fds=()):
    _close_descriptors(keep_fds)
    # Until there is somebody to pass them on, or to be interrupted.
    signal.pthread_sigmask(signal.SIG_BLOCK, _PASSED_ON)
    if limits:
        process_limits.join(limits)
    _leave_namespaces(policy)
    root = _build_root(policy)
    life, supervisors_life = os.pipe()
    first = os.fork()
    if first:
        os.close(life)
        _be_supervisor(first, keep_fds)
    try:
        os.close(supervisors_life)
        _enter_root(root, life)
        linux.drop_privileges()
        if seccomp:
            linux.filter_system_calls(seccomp)
        if "proxy" in policy:
            forward.start(policy["proxy"]["socket"], _PROXY_PORT)
        program = os.fork()
        if program:
            _be_first_process(program)
        # A session of its own: no signal to its group reaches the reaper.
        os.setsid()
        os.chdir(policy["workingDir"])
        os.environ.clear()
        os.environ.update(policy["env"])
        if limits:
            process_limits.apply(limits)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)
    except BaseException:
        _die_of_it()


def _die_of_it():
    """Only the calling process can raise to its caller: this one is beyond the fork and says it on stderr."""
    import traceback

    traceback.print_exc()
    os._exit(125)


def _close_descriptors(keep):
    for name in os.listdir("/proc/self/fd"):
        if int(name) > 2 and int(name) not in keep:
            try:
                os.close(int(name))
            except OSError:
                pass  # It was the listing's own.


def _leave_namespaces(policy):
    uid, gid = os.getuid(), os.getgid()
    try:
        os.setgroups([])
    except PermissionError:
        pass  # An ordinary user keeps its groups, as with bubblewrap.
    shares_network = policy.get("network") == "host"
    linux.unshare(_NAMESPACES | (0 if shares_network else linux.CLONE_NEWNET))
    for name, content in (
        ("setgroups", "deny"),
        ("uid_map", "%d %d 1" % (_UID, uid)),
        ("gid_map", "%d %d 1" % (_UID, gid)),
    ):
        _write("/proc/self/" + name, content)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.set_host_name(_HOST_NAME)
    if not shares_network:
        linux.loopback_up()


def _write(path, content):
    with open(path, "w") as file:
        file.write(content)


def _build_root(policy):
    """The new root on a file system in memory; all but /proc, which needs a process of the new pid namespace."""
    plan = _ordered_mounts(policy)
    # Opened here: the mount namespace must be this one, and the new root is about to cover some of them.
    sources = [source and os.open(source, os.O_PATH) for _, source, _ in plan]
    root = "/tmp"
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=%d,mode=755" % (4 * _MB))
    _build_devices(root, policy)
    for folder in ("/proc", "/tmp"):
        os.mkdir(root + folder)
    _mount_memory(root + "/tmp", policy)
    for link in policy.get("symlinks", ()):
        os.makedirs(root + os.path.dirname(link["at"]), exist_ok=True)
        os.symlink(link["to"], root + link["at"])
    for (kind, _, at), source in zip(plan, sources):
        target = root + at
        if kind == "hidden":
            os.makedirs(target, exist_ok=True)
            linux.mount("tmpfs", target, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=65536,mode=755")
            continue
        opened = "/proc/self/fd/%d" % source
        _make_mount_point(target, os.path.isdir(opened))
        linux.mount(opened, target, None, linux.MS_BIND | linux.MS_REC)
        linux.protect(target, read_only=kind == "readOnly")
        os.close(source)
    for at in policy.get("hidden", ()):
        _make_read_only(root + at)
    return root


def _ordered_mounts(policy):
    """Outer ones first, so that what lies deeper is not covered; as bubblewrap.ts orders them."""
    plan = [("hidden", None, at) for at in policy.get("hidden", ())]
    for kind in ("readOnly", "readWrite"):
        plan += [(kind, mount["from"], mount["at"]) for mount in policy[kind]]
    return sorted(plan, key=lambda entry: entry[2].rstrip("/").count("/"))


def _make_mount_point(target, is_folder):
    if os.path.lexists(target):
        return
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))


def _build_devices(root, policy):
    dev = root + "/dev"
    os.mkdir(dev)
    for name in ("null", "zero", "full", "random", "urandom", "tty"):
        _make_mount_point("%s/%s" % (dev, name), is_folder=False)
        linux.mount("/dev/" + name, "%s/%s" % (dev, name), None, linux.MS_BIND)
    for name in ("shm", "pts"):
        os.mkdir("%s/%s" % (dev, name))
    _mount_memory(dev + "/shm", policy)
    options = "newinstance,ptmxmode=0666,mode=620"
    linux.mount("devpts", dev + "/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "core": "/proc/kcore"}
    links.update({name: "/proc/self/fd/%d" % number for number, name in enumerate(("stdin", "stdout", "stderr"))})
    for name, target in links.items():
        os.symlink(target, "%s/%s" % (dev, name))


def _mount_memory(target, policy):
    size = ",size=%d" % (policy["tmpMb"] * _MB) if "tmpMb" in policy else ""
    options = "mode=1777,nr_inodes=%d%s" % (_MAX_FILES_IN_MEMORY, size)
    linux.mount("tmpfs", target, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)


def _enter_root(root, life):
    linux.die_with_parent()
    if select.select([life], [], [], 0)[0]:
        os._exit(125)  # The supervisor was gone before we asked to be told.
    os.close(life)
    linux.mount("proc", root + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    # No more of them inside, by whatever way; and without capabilities nobody can raise this again.
    _write(root + "/proc/sys/user/max_user_namespaces", "0")
    _cover_proc(root + "/proc")
    os.chdir(root)
    linux.pivot_root_here()
    _make_read_only("/")


def _make_read_only(mount_point):
    """Not what is mounted below, some of which may be written."""
    flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount(None, mount_point, None, linux.MS_BIND | linux.MS_REMOUNT | flags)


def _cover_proc(proc):
    """What speaks of the machine instead of its processes. A root without capabilities could still write to it."""
    for name in _READ_ONLY_PROC:
        path = "%s/%s" % (proc, name)
        if os.path.exists(path):
            linux.mount(path, path, None, linux.MS_BIND | linux.MS_REC)
            linux.protect(path, read_only=True)
    for name in _COVERED_PROC:
        path = "%s/%s" % (proc, name)
        if os.path.isdir(path):
            linux.mount("tmpfs", path, "tmpfs", linux.MS_RDONLY, "size=4096,mode=555")
        elif os.path.exists(path):
            linux.mount("/dev/null", path, None, linux.MS_BIND)


def _be_supervisor(first, keep_fds):
    _pass_on_signals(first)
    for descriptor in keep_fds:
        os.close(descriptor)
    os._exit(_exit_code(os.waitpid(first, 0)[1]))


def _be_first_process(program):
    """Reaps what nobody waits for. When it leaves, the kernel ends everything else in here."""
    _pass_on_signals(program)
    _close_descriptors(())
    linux.hide_from_others()
    while True:
        pid, status = os.wait()
        if pid == program:
            os._exit(_exit_code(status))


def _pass_on_signals(pid):
    for number in _PASSED_ON:
        signal.signal(number, lambda received, _frame: os.kill(pid, received))
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _PASSED_ON)


def _exit_code(status):
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
