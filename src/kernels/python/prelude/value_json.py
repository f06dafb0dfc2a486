"""
Any value as JSON text: dates, sets, models and arrays in their usual forms, everything else by its repr. Does not use
the json module's encoder, because the exact text matters: 2.0 is not 2, and a large integer keeps its digits.
"""

import datetime
import decimal
import enum
import json
import pathlib
import re
import types
import uuid

from _cellwright import mime

# Its MIME type in a bundle.
KIND = "application/vnd.cellwright.value+json"

# Characters of the text. Below the bundle's limit, because a bundle has other forms, too.
_MAX_CHARS = 6_000_000
_NOT_FINITE = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}
_YEAR_DAYS = 365


class TooLarge(Exception):
    pass


def form(value, style):
    """The text, and whether the value is a string. `style`: indent, or 0; quoteNonFinite. Raises only interrupts."""
    try:
        text = _Writer(style).text(value)
    except TooLarge:
        text = _quoted(
            f"<left out: the value is more than {_MAX_CHARS // 10**6} MB as JSON. Write it to a file instead.>"
        )
    except Exception:
        text = _quoted(mime.plain(value))
    return {"text": text, "isString": isinstance(value, str)}


class _Writer:
    def __init__(self, style):
        self._indent = style["indent"]
        self._quotes_non_finite = style["quoteNonFinite"]
        self._parts = []
        self._left = _MAX_CHARS
        self._open = set()

    def text(self, value):
        self._write(value, 0)
        return "".join(self._parts)

    def _add(self, text):
        self._left -= len(text)
        if self._left < 0:
            raise TooLarge
        self._parts.append(text)

    def _write(self, value, depth):
        simple = self._simple(value)
        if simple is not None:
            self._add(simple)
            return
        if id(value) in self._open:
            self._add(_quoted(mime.plain(value)))
            return
        self._open.add(id(value))
        try:
            self._write_compound(value, depth)
        finally:
            self._open.discard(id(value))

    def _write_compound(self, value, depth):
        if isinstance(value, dict):
            self._write_object(value.items(), depth)
        elif isinstance(value, (list, tuple, set, frozenset, types.GeneratorType)):
            self._write_list(value, depth)
        else:
            self._write_instance(value, depth)

    def _write_instance(self, value, depth):
        known, inner = _unfolded(value)
        if known:
            self._write(inner, depth)
        else:
            self._add(_quoted(mime.plain(value)))

    def _simple(self, value):
        """The text of a value without parts; None for others."""
        if value is None:
            return "null"
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, enum.Enum):
            return None
        if isinstance(value, int):
            return int.__repr__(value)
        if isinstance(value, float):
            return self._number(value)
        text = _text_of(value)
        return None if text is None else _quoted(text)

    def _number(self, value):
        text = _float_text(value)
        return f'"{text}"' if self._quotes_non_finite and text in _NOT_FINITE.values() else text

    def _write_list(self, items, depth):
        self._write_between("[", "]", depth, ((None, item) for item in items))

    def _write_object(self, items, depth):
        self._write_between("{", "}", depth, ((_key(key), value) for key, value in items))

    def _write_between(self, opening, closing, depth, items):
        self._add(opening)
        is_empty = True
        for key, value in items:
            self._add(("" if is_empty else ",") + self._line(depth + 1))
            is_empty = False
            if key is not None:
                self._add(_quoted(key) + (": " if self._indent else ":"))
            self._write(value, depth + 1)
        self._add(closing if is_empty else self._line(depth) + closing)

    def _line(self, depth):
        return "\n" + " " * (self._indent * depth) if self._indent else ""


def _unfolded(value):
    """Whether a simpler value represents it, and that value."""
    kind = type(value)
    if isinstance(value, type):
        return False, None
    if isinstance(value, enum.Enum):
        return True, value.value
    serializer = getattr(kind, "__pydantic_serializer__", None)
    if serializer is not None and hasattr(serializer, "to_python"):
        return True, serializer.to_python(value, mode="json")
    if hasattr(kind, "__dataclass_fields__"):
        return True, _fields(value)
    if kind.__module__ == "numpy":
        if kind.__name__ in ("ndarray", "matrix"):
            return True, value.tolist()
        if hasattr(value, "item"):
            return True, value.item()
    if kind.__module__ == "pyodide.ffi" and hasattr(value, "to_py"):
        inner = value.to_py()
        return inner is not value, inner
    return False, None


def _fields(value):
    import dataclasses

    return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}


def _text_of(value):
    """The text of a value that becomes a JSON string; None for others."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, (bytes, bytearray)):
        try:
            return bytes(value).decode()
        except UnicodeDecodeError:
            return repr(value)
    if isinstance(value, (datetime.datetime, datetime.time)):
        text = value.isoformat()
        return text[:-6] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, datetime.date):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _duration(value)
    if isinstance(value, (decimal.Decimal, uuid.UUID, pathlib.PurePath)):
        return str(value)
    if isinstance(value, complex):
        return complex.__repr__(value).strip("()")
    if isinstance(value, re.Pattern):
        return value.pattern if isinstance(value.pattern, str) else None
    return None


def _key(key):
    """JSON keys have to be strings."""
    if isinstance(key, enum.Enum):
        return _key(key.value)
    if isinstance(key, bool):
        return "true" if key else "false"
    if key is None:
        return "None"
    if isinstance(key, int):
        return int.__repr__(key)
    if isinstance(key, float):
        return _float_text(key)
    if isinstance(key, tuple):
        return ",".join(map(_key, key))
    text = _text_of(key)
    return mime.plain(key) if text is None else text


def _float_text(value):
    text = float.__repr__(value)
    if text in _NOT_FINITE:
        return _NOT_FINITE[text]
    mantissa, is_short, exponent = text.partition("e")
    if not is_short:
        return text
    if int(exponent) == -5:
        sign = "-" if mantissa.startswith("-") else ""
        return f"{sign}0.0000{mantissa.lstrip('-').replace('.', '')}"
    return f"{mantissa}e{int(exponent)}"


def _duration(value):
    """ISO 8601."""
    size = abs(value)
    years, days = divmod(size.days, _YEAR_DAYS)
    minutes, seconds = divmod(size.seconds, 60)
    hours, minutes = divmod(minutes, 60)
    fraction = f".{size.microseconds:06}".rstrip("0") if size.microseconds else ""
    date = (f"{years}Y" if years else "") + (f"{days}D" if days else "")
    time = (f"{hours}H" if hours else "") + (f"{minutes}M" if minutes else "")
    if seconds or fraction:
        time += f"{seconds}{fraction}S"
    if not date and not time:
        time = "0S"
    return ("-" if value < datetime.timedelta(0) else "") + "P" + date + (f"T{time}" if time else "")


def _quoted(text):
    return mime.escape_halves(json.dumps(text, ensure_ascii=False))
