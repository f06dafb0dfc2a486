"""The imports of a zygote. They must not leave threads behind: a fork has only the thread that forks."""

import ctypes
import gc
import importlib
import importlib.util
import os

# Keeps libraries from starting threads during their import.
SINGLE_THREADED = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMEXPR_NUM_THREADS": "1",
    # pyarrow, which pandas imports if it is installed.
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}

# Modules that a kernel start imports in addition to `boot.prepare`; not all versions have all of them.
KERNEL_MODULES = [
    "_cellwright.orphan",
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "IPython.utils.wildcard",
    "matplotlib_inline.backend_inline",
    "tornado.platform.asyncio",
    "sqlite3",
]

# Functions that change the number of threads of a loaded library.
SET_THREADS = {
    "openblas": [
        "scipy_openblas_set_num_threads64_",
        "scipy_openblas_set_num_threads",
        "openblas_set_num_threads64_",
        "openblas_set_num_threads",
    ],
    "mkl_rt": ["MKL_Set_Num_Threads"],
    "gomp": ["omp_set_num_threads"],
    "iomp": ["omp_set_num_threads"],
    "libomp": ["omp_set_num_threads"],
}


class ThreadStarted(Exception):
    """`module`: the one not to import; None if a thread was there before."""

    def __init__(self, module):
        names = ", ".join(thread_names())
        super().__init__("its import starts threads" if module else "the process has several threads: " + names)
        self.module = module


def load(modules, left):
    """Imports the installed ones. Returns their names; adds those that fail to `left`."""
    before = {name: os.environ.get(name) for name in SINGLE_THREADED}
    os.environ.update(SINGLE_THREADED)
    try:
        from _cellwright import boot

        boot.prepare()
        for name in KERNEL_MODULES:
            attempt(name)
        if len(thread_names()) > 1:
            raise ThreadStarted(None)
        loaded = []
        for name in modules:
            if name in left or not is_installed(name):
                continue
            failure = attempt(name)
            if failure:
                left[name] = failure
            else:
                loaded.append(name)
            if len(thread_names()) > 1:
                raise ThreadStarted(name)
        return loaded
    finally:
        # Restored, because programs that kernels start would inherit them.
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def is_installed(name):
    return importlib.util.find_spec(name.partition(".")[0]) is not None


def attempt(name):
    """Imports a module. Returns None, or the reason of a failure. Packages raise all kinds of exceptions."""
    try:
        importlib.import_module(name)
    except Exception as error:
        return "%s: %s" % (type(error).__name__, error)
    return None


def freeze():
    """Keeps the forks' garbage collector from writing to shared pages (copy-on-write)."""
    gc.collect()
    gc.freeze()


def thread_names():
    """Names of all threads, not only Python's."""
    names = []
    for task in os.listdir("/proc/self/task"):
        with open("/proc/self/task/%s/comm" % task) as file:
            names.append(file.read().strip())
    return names


def widen_thread_pools(threads):
    """In a fork, gives numerical libraries their usual number of threads, which start on first use."""
    with open("/proc/self/maps") as maps:
        libraries = {line.split(None, 5)[5].strip() for line in maps if ".so" in line}
    for path in libraries:
        for part, setters in SET_THREADS.items():
            if part in os.path.basename(path):
                widen(path, setters, threads)


def widen(path, setters, threads):
    try:
        library = ctypes.CDLL(path)
    except OSError:
        return
    for setter in setters:
        function = getattr(library, setter, None)
        if function is not None:
            function(ctypes.c_int(threads))
            return
