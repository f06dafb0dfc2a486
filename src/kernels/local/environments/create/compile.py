"""Compiles all modules below a folder to byte code, on all processors. Prints its progress: "done/total"."""

import compileall
import os
import sys
from concurrent.futures import ProcessPoolExecutor

FILES_AT_ONCE = 40


def modules(folder):
    for place, folders, names in os.walk(folder):
        # User code does not import packages' tests, which are a third of all files.
        folders[:] = [name for name in folders if name not in ("__pycache__", "tests", "test")]
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(place, name)


def compile_some(paths):
    for path in paths:
        # Errors are ignored: some packages contain templates that are not Python.
        compileall.compile_file(path, quiet=2)
    return len(paths)


def main(folder):
    paths = list(modules(folder))
    chunks = [paths[index : index + FILES_AT_ONCE] for index in range(0, len(paths), FILES_AT_ONCE)]
    done = 0
    with ProcessPoolExecutor() as pool:
        for count in pool.map(compile_some, chunks):
            done += count
            print("%d/%d" % (done, len(paths)), flush=True)


if __name__ == "__main__":
    main(sys.argv[1])
