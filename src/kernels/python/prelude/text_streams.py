"""`sys.stdin`, `sys.stdout` and `sys.stderr` of every kernel."""

import codecs
import io

NO_INPUT = (
    "This kernel has no keyboard input, so input() and getpass() fail. "
    "Assign the value to a variable in the code, or pass it in with the call's variables."
)


class Stream(io.TextIOBase):
    encoding = "utf-8"
    errors = "replace"
    line_buffering = True
    mode = "w"

    def __init__(self, name, fd, write, flush):
        """`write` outputs a text, `flush` waits until it has been sent."""
        self._write = write
        self._flush = flush
        self._fd = fd
        self.name = f"<{name}>"
        self.buffer = Bytes(self)

    def write(self, text):
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        self._write(text)
        return len(text)

    def flush(self):
        self._flush()

    def fileno(self):
        return self._fd

    def writable(self):
        return True

    def isatty(self):
        return False

    def reconfigure(self, **_options):
        self.flush()

    def close(self):
        # A library that closes "its" stdout must not disable output for the next cells.
        self.flush()


class Bytes(io.BufferedIOBase):
    """The binary side of a stream. A character may be split between two writes."""

    def __init__(self, stream):
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def write(self, data):
        data = bytes(data)
        text = self._decoder.decode(data)
        if text:
            self._stream.write(text)
        return len(data)

    def flush(self):
        self._stream.flush()

    def fileno(self):
        return self._stream.fileno()

    def writable(self):
        return True

    def close(self):
        self.flush()


class NoStdin(io.TextIOBase):
    encoding = "utf-8"
    name = "<stdin>"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def read(self, *_args):
        raise EOFError(NO_INPUT)

    readline = readlines = __next__ = read
