"""
Namespaces of mounts, processes, network, IPC, host name, cgroups and users, and a root with the mounts that
`namespaceRules` of policy.ts names, in its order.
"""

import os

from . import linux

_NAMESPACES = (
    linux.CLONE_NEWUSER
    | linux.CLONE_NEWNS
    | linux.CLONE_NEWPID
    | linux.CLONE_NEWIPC
    | linux.CLONE_NEWUTS
    | linux.CLONE_NEWCGROUP
)


def build(rules):
    """
    Leaves the caller's namespaces and builds the new root. The new pid namespace starts with the next child, which has
    to call `enter` with the result.
    """
    _leave_namespaces(rules)
    return _build_root(rules)


def enclose(rules):
    """Own mount, user and network namespaces, but no pid namespace; see enclosure.py."""
    ids = os.getuid(), os.getgid()
    linux.unshare(linux.CLONE_NEWUSER | linux.CLONE_NEWNS | (0 if rules["sharesNetwork"] else linux.CLONE_NEWNET))
    _map_ids(ids, ids)
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    sources = _open_sources(rules)
    root = _mount_root(rules)
    for folder in rules["machineFolders"]:
        os.mkdir(root + folder)
        linux.mount(folder, root + folder, None, linux.MS_BIND | linux.MS_REC)
    os.mkdir(root + "/tmp")
    _mount_memory(root + "/tmp", rules)
    _mount_all(root, rules, sources)
    os.chdir(root)
    linux.pivot_root_here()
    _make_read_only("/")


def enter(root, rules):
    linux.mount("proc", root + "/proc", "proc", linux.MS_NOSUID | linux.MS_NODEV | linux.MS_NOEXEC)
    for name, value in rules["userLimits"].items():
        # Processes inside have no capabilities to raise them again.
        path = "%s/proc/sys/user/%s" % (root, name)
        if os.path.exists(path):
            _write(path, str(value))
    _cover_proc(root + "/proc", rules["proc"])
    os.chdir(root)
    linux.pivot_root_here()
    _make_read_only("/")


def _leave_namespaces(rules):
    uid, gid = os.getuid(), os.getgid()
    try:
        os.setgroups([])
    except PermissionError:
        pass  # An unprivileged user keeps its groups, as with bubblewrap.
    linux.unshare(_NAMESPACES | (0 if rules["sharesNetwork"] else linux.CLONE_NEWNET))
    _map_ids((rules["uid"], rules["uid"]), (uid, gid))
    linux.mount(None, "/", None, linux.MS_REC | linux.MS_PRIVATE)
    linux.set_host_name(rules["hostName"].encode())
    if not rules["sharesNetwork"]:
        linux.loopback_up()


def _map_ids(inside, outside):
    _write("/proc/self/setgroups", "deny")
    for name, own, mapped in zip(("uid_map", "gid_map"), inside, outside):
        _write("/proc/self/" + name, "%d %d 1" % (own, mapped))


def _write(path, content):
    with open(path, "w") as file:
        file.write(content)


def _build_root(rules):
    """Builds the new root on a tmpfs, without /proc, which needs a process of the new pid namespace."""
    sources = _open_sources(rules)
    root = _mount_root(rules)
    _build_devices(root, rules)
    for folder in ("/proc", "/tmp"):
        os.mkdir(root + folder)
    _mount_memory(root + "/tmp", rules)
    _mount_all(root, rules, sources)
    return root


def _mount_root(rules):
    root = "/tmp"
    _mount_tmpfs(root, rules["rootBytes"])
    return root


def _mount_tmpfs(target, size):
    linux.mount("tmpfs", target, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, "size=%d,mode=755" % size)


def _mount_all(root, rules, sources):
    for link in rules["symlinks"]:
        os.makedirs(root + os.path.dirname(link["at"]), exist_ok=True)
        os.symlink(link["to"], root + link["at"])
    hidden = []
    for mount, source in zip(rules["mounts"], sources):
        target = root + mount["at"]
        if source is None:
            os.makedirs(target, exist_ok=True)
            _mount_tmpfs(target, rules["hiddenBytes"])
            hidden.append(target)
            continue
        opened = "/proc/self/fd/%d" % source
        _make_mount_point(target, os.path.isdir(opened))
        linux.mount(opened, target, None, linux.MS_BIND | linux.MS_REC)
        linux.protect(target, read_only=mount["kind"] == "readOnly")
        os.close(source)
    for target in hidden:
        _make_read_only(target)


def _open_sources(rules):
    """Opened before the new root covers some of them. None for a mount that hides a folder."""
    return [os.open(mount["from"], os.O_PATH) if "from" in mount else None for mount in rules["mounts"]]


def _make_mount_point(target, is_folder):
    if os.path.lexists(target):
        return
    os.makedirs(target if is_folder else os.path.dirname(target), exist_ok=True)
    if not is_folder:
        os.close(os.open(target, os.O_CREAT | os.O_WRONLY, 0o444))


def _build_devices(root, rules):
    dev = root + "/dev"
    os.mkdir(dev)
    for name in rules["devices"]:
        _make_mount_point("%s/%s" % (dev, name), is_folder=False)
        linux.mount("/dev/" + name, "%s/%s" % (dev, name), None, linux.MS_BIND)
    for name in ("shm", "pts"):
        os.mkdir("%s/%s" % (dev, name))
    _mount_memory(dev + "/shm", rules)
    options = "newinstance,ptmxmode=0666,mode=620"
    linux.mount("devpts", dev + "/pts", "devpts", linux.MS_NOSUID | linux.MS_NOEXEC, options)
    links = {"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "core": "/proc/kcore"}
    links.update({name: "/proc/self/fd/%d" % number for number, name in enumerate(("stdin", "stdout", "stderr"))})
    for name, target in links.items():
        os.symlink(target, "%s/%s" % (dev, name))


def _mount_memory(target, rules):
    memory = rules["memory"]
    size = ",size=%d" % memory["bytes"] if "bytes" in memory else ""
    options = "mode=1777,nr_inodes=%d%s" % (memory["files"], size)
    linux.mount("tmpfs", target, "tmpfs", linux.MS_NOSUID | linux.MS_NODEV, options)


def _make_read_only(mount_point):
    """Without the mounts below it, some of which are writable."""
    flags = linux.MS_RDONLY | linux.MS_NOSUID | linux.MS_NODEV
    linux.mount(None, mount_point, None, linux.MS_BIND | linux.MS_REMOUNT | flags)


def _cover_proc(proc, rules):
    """Covers files about the machine instead of its processes. Root without capabilities could still write to them."""
    for name in rules["readOnly"]:
        path = "%s/%s" % (proc, name)
        if os.path.exists(path):
            linux.mount(path, path, None, linux.MS_BIND | linux.MS_REC)
            linux.protect(path, read_only=True)
    for name in rules["covered"]:
        path = "%s/%s" % (proc, name)
        if os.path.isdir(path):
            linux.mount("tmpfs", path, "tmpfs", linux.MS_RDONLY, "size=4096,mode=555")
        elif os.path.exists(path):
            linux.mount("/dev/null", path, None, linux.MS_BIND)
