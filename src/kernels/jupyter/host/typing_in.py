"""`input()` and `getpass()`: asked of the user where there is one, refused with a sentence where there is none."""

from _cellwright import text_streams

_DECLINED = "The user was asked, and did not answer."


def ask(is_allowed, request):
    """What the user typed. `request()` asks and waits; an empty end of input means that they declined."""
    if not is_allowed:
        raise EOFError(text_streams.NOBODY_TYPES)
    try:
        return request()
    except EOFError:
        raise EOFError(_DECLINED) from None
