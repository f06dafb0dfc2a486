"""Describes variables without running user code: no repr, len or property of a user's class is called."""

import itertools
import sys
import types

_SUMMARY_CHARS = 100
_MEMBERS = 100
_DEPTH = 3
# Converting an int to digits takes more than linear time; a longer one is described by its size.
_INT_BITS = 10_000

# Read through `type`: a metaclass may override `__name__`.
_name_of = type.__dict__["__name__"].__get__
_mro_of = type.__dict__["__mro__"].__get__
_dict_of = type.__dict__["__dict__"].__get__

_SIZED = (str, bytes, bytearray, list, tuple, dict, set, frozenset, range)
_CONTAINERS = {list: "[]", tuple: "()", set: "{}", frozenset: ("frozenset({", "})"), dict: "{}"}
_PLAIN = (bool, float, complex, type(None), type(...), type(NotImplemented))

_hidden = frozenset()


def hide(namespace):
    """Names that exist before the first cell are not the user's variables."""
    global _hidden
    _hidden = frozenset(namespace)


def answer(namespace, query):
    """All variables, or only the one with the given name, if it exists."""
    name = query.get("name")
    if name is not None:
        return [_describe(name, namespace[name], query["maxChars"], True)] if name in namespace else []
    shown = (name for name, value in list(namespace.items()) if _is_shown(name, value))
    return [_describe(name, namespace[name], _SUMMARY_CHARS, False) for name in itertools.islice(shown, query["limit"])]


def _is_shown(name, value):
    return (
        type(name) is str and not name.startswith("_") and name not in _hidden and type(value) is not types.ModuleType
    )


def _describe(name, value, max_chars, in_detail):
    about = {"name": name, "type": _name_of(type(value))}
    try:
        about |= (
            _array(value, max_chars)
            or _series(value, max_chars)
            or _frame(value, max_chars, in_detail)
            or _other(value, max_chars, in_detail)
        )
    except Exception as error:
        about["summary"] = f"<cannot be shown: {type(error).__name__}>"
    return about


def _other(value, max_chars, in_detail):
    kind = type(value)
    about: dict = {"summary": _shorten(_text(value, max_chars, _DEPTH), max_chars)}
    if kind in _SIZED:
        about["length"] = len(value)
    if kind in _SIZED or kind in _PLAIN or kind is int:
        about["sizeBytes"] = sys.getsizeof(value)
    if in_detail:
        names = value if kind is dict else _attributes(value) or ()
        about["members"] = [str(key)[:200] for key in itertools.islice(names, _MEMBERS) if type(key) in (str, int)]
        if not about["members"]:
            del about["members"]
    return about


def _attributes(value):
    """The instance's dictionary, found without an attribute access: `__dict__` can be a property."""
    for base in _mro_of(type(value)):
        descriptor = _dict_of(base).get("__dict__")
        if type(descriptor) is types.GetSetDescriptorType:
            found = descriptor.__get__(value)
            return found if type(found) is dict else None
        if descriptor is not None:
            return None
    return None


def _text(value, room, depth) -> str:
    """Up to about `room` characters of the repr, for builtin types only."""
    kind = type(value)
    if kind is str or kind is bytes or kind is bytearray:
        return repr(value[: room + 1]) + ("…" if len(value) > room + 1 else "")
    if kind is int:
        return repr(value) if value.bit_length() <= _INT_BITS else f"<int of {value.bit_length()} bits>"
    if kind in _PLAIN or kind is range:
        return repr(value)
    if kind in _CONTAINERS:
        return _container(value, kind, room, depth)
    # Not isinstance, which reads the value's `__class__`.
    if issubclass(kind, type):
        return f"<class {_name_of(value)}>"
    if kind in (types.FunctionType, types.BuiltinFunctionType, types.MethodType):
        return f"<function {_function_name(value)}>"
    attributes = _attributes(value)
    count = f" with {len(attributes)} attributes" if attributes else ""
    return f"<{_name_of(kind)}{count}>"


def _container(value, kind, room, depth):
    opening, closing = _CONTAINERS[kind]
    if not value:
        return f"{kind.__name__}()" if kind in (set, frozenset) else opening + closing
    if depth == 0:
        return f"{opening}…{closing}"
    parts = []
    left = room
    for item in value.items() if kind is dict else value:
        if left <= 0:
            parts.append("…")
            break
        if kind is dict:
            part = f"{_text(item[0], left, depth - 1)}: {_text(item[1], left, depth - 1)}"
        else:
            part = _text(item, left, depth - 1)
        left -= len(part) + 2
        parts.append(part)
    comma = "," if kind is tuple and len(value) == 1 else ""
    return opening + ", ".join(parts) + comma + closing


def _function_name(value):
    name = value.__name__
    return name if type(name) is str else "?"


def _shorten(text, max_chars):
    return text if len(text) <= max_chars else text[: max_chars - 1] + "…"


def _is_a(value, module, name):
    """Whether the value's type is exactly a library's class, found without running code of either."""
    library = sys.modules.get(module)
    if type(library) is not types.ModuleType:
        return False
    return type(value) is vars(types.ModuleType)["__dict__"].__get__(library).get(name)


def _array(value, max_chars):
    if not _is_a(value, "numpy", "ndarray"):
        return None
    about = {"shape": list(value.shape), "dtype": str(value.dtype), "sizeBytes": int(value.nbytes)}
    if value.ndim:
        about["length"] = len(value)
    if value.dtype.kind in "biufcmMSU":
        head = value.flat[: max(1, max_chars // 4)]
        text = " ".join(str(item) for item in head.tolist())
        about["summary"] = _shorten(f"[{text}{' …' if value.size > len(head) else ''}]", max_chars)
    else:
        about["summary"] = f"<array of {value.dtype}>"
    return about


def _series(value, max_chars):
    if not _is_a(value, "pandas", "Series"):
        return None
    head = ", ".join(_text(item, 40, 1) for item in value.head(10).tolist())
    return {
        "shape": list(value.shape),
        "length": len(value),
        "dtype": str(value.dtype),
        "sizeBytes": int(value.nbytes),
        "summary": _shorten(head, max_chars),
    }


def _frame(value, max_chars, in_detail):
    if not _is_a(value, "pandas", "DataFrame"):
        return None
    columns = list(itertools.islice(value.columns, _MEMBERS))
    names = ", ".join(name if type(name) is str else _text(name, 40, 1) for name in columns)
    about = {
        "shape": list(value.shape),
        "length": len(value),
        "sizeBytes": int(value.memory_usage(index=False, deep=False).sum()),
    }
    lines = [f"{value.shape[0]} rows × {value.shape[1]} columns: {names}"]
    if in_detail:
        kinds = itertools.islice(value.dtypes, _MEMBERS)
        about["members"] = [f"{_text(name, 100, 1)}: {kind}" for name, kind in zip(columns, kinds)]
        lines += [_text(list(row), 200, 2) for row in value.head(5).itertuples(index=False, name=None)]
    about["summary"] = _shorten("\n".join(lines), max_chars)
    return about
