"""Tries to reach what a jail should keep out of reach, and says for each whether it did: python probes.py JSON

The JSON names what the test has laid out on the machine. Each probe is harmless where it succeeds, and raises where it
does not. A probe of its own process is forked, so that one cannot spoil the next.
"""

import ctypes
import json
import os
import socket
import stat
import sys

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long
on_arm = os.uname().machine == "aarch64"
target = json.loads(sys.argv[1])


def checked(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    return result


def call(x64, arm64, *arguments):
    return checked(libc.syscall(arm64 if on_arm else x64, *arguments))


def read_flag():
    return open(target["flagFile"]).read()


def read_flag_in_memory():
    return open(target["sharedMemoryFile"]).read()


def see_host_process():
    os.kill(target["hostPid"], 0)


def read_secret_of_environment():
    with open("/proc/self/environ", "rb") as environ:
        if target["secret"].encode() in environ.read() or target["secret"] in os.environ.values():
            return
    raise OSError("the secret is not there")


def use_inherited_folder():
    links = [
        os.readlink("/proc/self/fd/%d" % number)
        for number in range(3, 64)
        if os.path.exists("/proc/self/fd/%d" % number)
    ]
    if not any(link.startswith(target["folder"]) for link in links):
        raise OSError("no descriptor leads out")


def connect_to_loopback():
    socket.create_connection(("127.0.0.1", target["port"]), 2).close()


def connect_to_abstract_socket():
    # Some versions of Node treat the whole field as the name.
    for name in (target["abstractName"], target["abstractName"].ljust(107, "\0")):
        with socket.socket(socket.AF_UNIX) as connection:
            if connection.connect_ex("\0" + name) == 0:
                return
    raise OSError("nothing listens")


def attach_shared_memory():
    checked(libc.shmget(target["sharedMemoryKey"], 1, 0))


def make_user_namespace():
    checked(libc.unshare(0x10000000))


def clone_into_namespace():
    pid = call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def mount():
    libc.unshare(0x10000000 | 0x20000)
    checked(libc.mount(b"tmpfs", b"/tmp", b"tmpfs", ctypes.c_ulong(0), None))


def change_environment():
    with open(os.path.join(target["environmentDir"], "planted.pth"), "w"):
        pass


def replace_environment():
    """Move a parent folder away, and put another in its place."""
    os.rename(target["movableDir"], target["movableDir"] + "-away")
    os.rename(target["movableDir"] + "-away", target["movableDir"])


def see_hidden():
    return open(target["hiddenFile"]).read()


def open_core_pattern_for_writing():
    os.close(os.open("/proc/sys/kernel/core_pattern", os.O_WRONLY))


def write_below_proc():
    for name in os.listdir("/proc"):
        if name.isdigit() or name in ("self", "thread-self", "net", "mounts"):
            continue
        paths = [os.path.join(folder, file) for folder, _, files in os.walk("/proc/" + name) for file in files]
        for path in paths + ["/proc/" + name]:
            # A device there is /dev/null.
            if os.access(path, os.W_OK) and not stat.S_ISCHR(os.stat(path).st_mode):
                return
    raise OSError("nothing can be written")


def write_to_root():
    os.mkdir("/planted-by-a-test")
    os.rmdir("/planted-by-a-test")


def trace():
    call(101, 117, 0, 0, 0, 0)


def use_keyring():
    call(250, 219, 0, -3, 0)


def use_io_uring():
    parameters = ctypes.create_string_buffer(120)
    os.close(call(425, 425, 1, parameters))


def open_cipher_socket():
    socket.socket(38, socket.SOCK_SEQPACKET, 0).close()


def open_packet_socket():
    socket.socket(17, socket.SOCK_RAW, 0).close()


def type_into_terminal():
    import pty

    # Without the permission, or without a controlling terminal, it fails in other ways than by the filter.
    main, other = pty.openpty()
    if libc.ioctl(other, ctypes.c_ulong(0x5412), b"x") < 0 and ctypes.get_errno() == 1:
        with open("/proc/self/status") as status:
            if "Seccomp:\t2" in status.read():
                raise OSError("the filter refused")


def have_privileges():
    with open("/proc/self/status") as status:
        fields = dict(line.rstrip("\n").split(":\t", 1) for line in status)
    if (fields["CapEff"], fields["CapBnd"], fields["NoNewPrivs"]) == ("0" * 16, "0" * 16, "1"):
        raise OSError("none")


probes = [value for name, value in list(globals().items()) if callable(value) and value.__module__ == "__main__"]
probes = [probe for probe in probes if probe.__name__ not in ("checked", "call")]


def attempt(probe):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            probe()
            verdict = "reached"
        except KeyError:
            verdict = "no target"
        except BaseException as error:
            verdict = "refused: %s" % error
        os.write(write, verdict.encode())
        os._exit(0)
    os.close(write)
    os.waitpid(pid, 0)
    verdict = os.read(read, 4096).decode()
    os.close(read)
    return verdict or "refused: killed"


print(json.dumps({probe.__name__: attempt(probe) for probe in probes}))
