"""`input()` and `getpass()`: asked of the user where there is one, refused with a sentence where there is none."""

import io

_NOBODY = (
    "Nobody can type into this kernel, so input() and getpass() have no answer. "
    "Assign the value to a variable in the code, or pass it in with the call's variables."
)
_DECLINED = "The user was asked, and did not answer."


class NoStdin(io.TextIOBase):
    """`sys.stdin`."""

    encoding = "utf-8"
    name = "<stdin>"

    def readable(self):
        return True

    def fileno(self):
        return 0

    def read(self, *_args):
        raise EOFError(_NOBODY)

    readline = readlines = __next__ = read


def ask(is_allowed, request):
    """What the user typed. `request()` asks and waits; an empty end of input means that they declined."""
    if not is_allowed:
        raise EOFError(_NOBODY)
    try:
        return request()
    except EOFError:
        raise EOFError(_DECLINED) from None
