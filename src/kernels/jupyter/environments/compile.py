"""Compiles all modules below a folder to byte code, on all processors, and says how far it is: "done/total"."""
import compileall
import os
import sys
from concurrent.futures import ProcessPoolExecutor

FILES_AT_ONCE = 40


def modules(folder):
    for place, folders, names in os.walk(folder):
        # Nobody's code imports the tests of a package; they are a third of all files.
        folders[:] = [name for name in folders if name not in ("__pycache__", "tests", "test")]
        for name in names:
            if name.endswith(".py"):
                yield os.path.join(place, name)


def compile_some(paths):
    for path in paths:
        # Some packages bring templates that are not Python: what cannot be compiled stays as it is.
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
