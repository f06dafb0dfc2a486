"""Namespaces of mounts, processes, network, IPC, host name, cgroups and users, and a root with the policy's mounts."""

import os

from . import linux

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
# What is taken inside counts for the machine's user as well, who has 128 instances for all programs unless told otherwise.
_PER_USER_LIMITS = {"max_user_namespaces": 0, "max_inotify_instances": 4, "max_inotify_watches": 4096}


def build(policy):
    """
    Leaves the caller's namespaces and builds the new root. The pid namespace is that of the next child, which has to
    call `enter` with what this returns.
    """
    _leave_namespaces(policy)
    return _build_root(policy)


def enclose(policy):
    """Mounts, users and network of its own, but no pid namespace; see enclosure.py."""
    ids = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS | (0 if policy["network"] else linux.CLONE_NEWNET))
    _map_ids(ids, ids)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    plan = _ordered_mounts(policy)
    sources = [os.open(source, os.O_PATH) for _, source, _ in plan]
    root = _mount_root()
    for folder in ("/proc", "/dev", "/sys"):
        os.mkdir(root + folder)
        linux.mount(folder, root + folder, None, linux.MS_BIND | linux.MS_REC)
    os.mkdir(root + "/tmp")
    _mount_memory(root + "/tmp", {"tmpMb": 16})
    _mount_all(root, policy, plan, sources)
    os.chdir(root)
    linux.pivot_root_here()
    _make_read_only("/")


def enter(root, policy):
    linux.mount("proc", root + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    for name, value in _PER_USER_LIMITS.items():
        if name == "max_user_namespaces" and policy.get("nests"):
            continue
        # Without capabilities no process inside can raise them again.
        path = "%s/proc/sys/user/%s" % (root, name)
        if os.path.exists(path):
            _write(path, str(value))
    _cover_proc(root + "/proc", policy["proc"])
    os.chdir(root)
    linux.pivot_root_here()
    _make_read_only("/")


def _leave_namespaces(policy):
    uid, gid = os.getuid(), os.getgid()
    try:
        os.setgroups([])
    except PermissionError:
        pass  # An ordinary user keeps its groups, as with bubblewrap.
    shares_network = policy.get("network") == "host"
    linux.unshare(_NAMESPACES | (0 if shares_network else linux.CLONE_NEWNET))
    _map_ids((policy["uid"], policy["uid"]), (uid, gid))
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.set_host_name(policy["hostName"].encode())
    if not shares_network:
        linux.loopback_up()


def _map_ids(inside, outside):
    _write("/proc/self/setgroups", "deny")
    for name, own, mapped in zip(("uid_map", "gid_map"), inside, outside):
        _write("/proc/self/" + name, "%d %d 1" % (own, mapped))


def _write(path, content):
    with open(path, "w") as file:
        file.write(content)


def _build_root(policy):
    """The new root on a file system in memory; all but /proc, which needs a process of the new pid namespace."""
    plan = _ordered_mounts(policy)
    # Opened here: the mount namespace must be this one, and the new root is about to cover some of them.
    sources = [source and os.open(source, os.O_PATH) for _, source, _ in plan]
    root = _mount_root()
    _build_devices(root, policy)
    for folder in ("/proc", "/tmp"):
        os.mkdir(root + folder)
    _mount_memory(root + "/tmp", policy)
    _mount_all(root, policy, plan, sources)
    return root


def _mount_root():
    root = "/tmp"
    linux.mount("tmpfs", root, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=%d,mode=755" % (4 * _MB))
    return root


def _mount_all(root, policy, plan, sources):
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


def _make_read_only(mount_point):
    """Not what is mounted below, some of which may be written."""
    flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount(None, mount_point, None, linux.MS_BIND | linux.MS_REMOUNT | flags)


def _cover_proc(proc, policy):
    """What speaks of the machine instead of its processes. A root without capabilities could still write to it."""
    for name in policy["readOnly"]:
        path = "%s/%s" % (proc, name)
        if os.path.exists(path):
            linux.mount(path, path, None, linux.MS_BIND | linux.MS_REC)
            linux.protect(path, read_only=True)
    for name in policy["covered"]:
        path = "%s/%s" % (proc, name)
        if os.path.isdir(path):
            linux.mount("tmpfs", path, "tmpfs", linux.MS_RDONLY, "size=4096,mode=555")
        elif os.path.exists(path):
            linux.mount("/dev/null", path, None, linux.MS_BIND)
