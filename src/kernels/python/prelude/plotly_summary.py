"""A text summary of a plotly figure: title, axes, and each trace's kind, size and ranges."""

import array
import base64
import re

_MAX_CHARS = 1000
_MAX_TRACES = 12
_MAX_TEXT_CHARS = 60

# The data attributes of a trace, in the order of the summary.
_DATA = "x y z r theta lat lon a b c labels locations values open high low close".split()
_CONTAINERS = {"node": "nodes", "link": "links", "dimensions": "dimensions"}
# plotly's dtypes of base64 arrays, as array.array type codes.
_TYPECODES = {"i1": "b", "u1": "B", "i2": "h", "u2": "H", "i4": "i", "u4": "I", "f4": "f", "f8": "d", "uint8c": "B"}


def summary(figure):
    """At most 1000 characters. `figure` is the parsed output of plotly.io.to_json."""
    traces = _list(figure.get("data"))
    lines = [f"{heading(figure)}: {_count(len(traces), 'trace')}{_axes(_dict(figure.get('layout')))}"]
    frames = len(_list(figure.get("frames")))
    if frames:
        lines[0] += f", {_count(frames, 'frame')} of animation"
    for number, trace in enumerate(traces):
        line = f"- {_trace(_dict(trace))}"
        rest = f"- and {len(traces) - number} more"
        if number >= _MAX_TRACES or sum(map(len, lines)) + len(lines) + len(line) + len(rest) > _MAX_CHARS:
            lines.append(rest)
            break
        lines.append(line)
    return "\n".join(lines)


def heading(figure):
    title = _title(_dict(figure.get("layout")))
    return f'plotly figure "{title}"' if title else "plotly figure"


def _axes(layout):
    parts = []
    for name, axis in layout.items():
        found = re.fullmatch(r"([xyz])axis(\d*)", name)
        if found and _title(_dict(axis)):
            parts.append(f'{found[1]}{found[2]} "{_title(axis)}"')
    for name, axis in _dict(layout.get("scene")).items():
        if name in ("xaxis", "yaxis", "zaxis") and _title(_dict(axis)):
            parts.append(f'{name[0]} "{_title(axis)}"')
    return f"; axes: {', '.join(parts[:6])}" if parts else ""


def _title(part):
    title = part.get("title")
    return _text(title.get("text") if isinstance(title, dict) else title)


def _trace(trace):
    words = [_text(trace.get("type")) or "scatter"]
    if isinstance(trace.get("mode"), str):
        words.append(f"({_text(trace['mode'])})")
    if trace.get("name"):
        words.append(f'"{_text(trace["name"])}"')
    parts = []
    columns = {key: _values(trace[key]) for key in _DATA if key in trace}
    columns = {key: values for key, values in columns.items() if values}
    if "z" in columns and _is_table(columns["z"]):
        rows = columns["z"]
        parts.append(f"{len(rows)} × {max(map(len, rows))} values")
        columns["z"] = [value for row in rows for value in row]
    elif columns:
        parts.append(_count(max(map(len, columns.values())), "point"))
    parts += [f"{key} {_extent(values)}" for key, values in columns.items()]
    for key, name in _CONTAINERS.items():
        part = trace.get(key)
        if part:
            parts.append(f"{_size(part)} {name}")
    if trace.get("visible") in (False, "legendonly"):
        parts.append("hidden")
    return " ".join(words) + (f": {', '.join(parts)}" if parts else "")


def _values(data):
    """A list of values or of rows. Arrays are lists, or base64 with dtype and shape."""
    if isinstance(data, list):
        return [_values(row) if isinstance(row, dict) else row for row in data]
    if not isinstance(data, dict) or data.get("dtype") not in _TYPECODES or not isinstance(data.get("bdata"), str):
        return []
    numbers = array.array(_TYPECODES[data["dtype"]])
    packed = base64.b64decode(data["bdata"])
    numbers.frombytes(packed[: len(packed) // numbers.itemsize * numbers.itemsize])
    shape = [int(part) for part in str(data.get("shape") or "").split(",") if part.strip().isdigit()]
    if len(shape) == 2 and shape[1] > 0:
        return [numbers[start : start + shape[1]].tolist() for start in range(0, len(numbers), shape[1])]
    return numbers.tolist()


def _is_table(values):
    return bool(values) and all(isinstance(row, list) for row in values)


def _extent(values):
    """The range of numbers or dates, or the first few names."""
    numbers = [value for value in values if type(value) in (int, float) and value == value]
    if numbers:
        low, high = min(numbers), max(numbers)
        return f"{low:.6g}" if low == high else f"{low:.6g} to {high:.6g}"
    names = list(dict.fromkeys(value for value in values if isinstance(value, str)))
    if not names:
        return "of no values"
    if all(re.match(r"\d{4}-\d\d-\d\d", name) for name in names):
        return f"{_date(min(names))} to {_date(max(names))}"
    shown = ", ".join(_text(name, 20) for name in names[:4])
    return f"{shown} … ({len(names)} different)" if len(names) > 4 else shown


def _date(text):
    return re.sub(r"T00:00:00(\.0+)?$", "", text)[:26]


def _size(part):
    if isinstance(part, dict):
        return max((len(_values(data)) for data in part.values() if isinstance(data, (list, dict))), default=0)
    return len(part) if isinstance(part, list) else 1


def _text(value, max_chars=_MAX_TEXT_CHARS):
    """One line, without plotly's markup."""
    text = str(value)[:1000] if isinstance(value, (str, int, float)) else ""
    text = " ".join(re.sub(r"<[^<>]{0,200}>", " ", text).split())
    return text if len(text) <= max_chars else f"{text[: max_chars - 1]}…"


def _count(number, noun):
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _dict(value):
    return value if isinstance(value, dict) else {}


def _list(value):
    return value if isinstance(value, list) else []
