"""altair: charts as PNG, rendered by vl-convert without a browser; without vl-convert, as a summary and JSON."""

import importlib.util
import io
import sys
from collections.abc import Callable

from _cellwright import imports, mime

# Charts are small by default, about 300 pixels on a side.
_SCALE = 2
# Limit for one picture, and for a chart as JSON, which includes its data.
_MAX_BYTES = 3_000_000
_MAX_REASON_CHARS = 1_500

_show: Callable[[dict], None]


def install(show):
    global _show
    _show = show
    imports.after("altair", _register)


def _register(altair):
    def show_chart(self, *_args, **_options):
        """Shows the chart in the cell's output. There is no other place, whatever renderer is asked for."""
        _show(mime.bundle(self))

    altair.TopLevelMixin.show = altair.TopLevelMixin.display = show_chart
    mime.register(altair.TopLevelMixin, _forms)


def _forms(chart):
    try:
        content = chart.to_dict()
    except Exception as error:
        _complain("could not be shown", error)
        return {}
    data: dict = {"text/plain": _summary(chart, content)}
    schema = str(content.get("$schema", "")).rpartition("/")[2].partition(".")[0]
    if len(str(content)) <= _MAX_BYTES:
        data[f"application/vnd.vegalite.{schema or 'v6'}+json"] = content
    if importlib.util.find_spec("vl_convert") is not None:
        try:
            data["image/png"] = _png(chart)
            # For clients that do not show the picture.
            data["text/plain"] = f"<{data['text/plain']}>"
        except Exception as error:
            _complain("could not be drawn", error)
    return data


def _png(chart):
    scale = _SCALE
    while True:
        file = io.BytesIO()
        chart.save(file, format="png", scale_factor=scale)
        picture = file.getvalue()
        if len(picture) <= _MAX_BYTES or scale < 0.2:
            return picture
        scale *= min(0.9, (_MAX_BYTES / len(picture)) ** 0.5)


def _summary(chart, content):
    """One line: the marks and the fields they encode."""
    words = [f"altair {type(chart).__name__}"]
    title = content.get("title")
    title = title.get("text") if isinstance(title, dict) else title
    if isinstance(title, str):
        words.append(f'"{title[:60]}"')
    parts = [_part(part) for part in _parts(content)]
    parts = [part for part in parts if part]
    return " ".join(" ".join(words).split()) + (f": {'; '.join(parts[:6])}" if parts else "")


def _parts(content, depth=4):
    if "mark" in content:
        yield content
    for key in ("layer", "hconcat", "vconcat", "concat", "spec"):
        inner = content.get(key)
        for part in inner if isinstance(inner, list) else [inner]:
            if isinstance(part, dict) and depth:
                yield from _parts(part, depth - 1)


def _part(content):
    mark = content["mark"]
    mark = mark.get("type") if isinstance(mark, dict) else mark
    parts = []
    for channel, coding in content.get("encoding", {}).items():
        if isinstance(coding, dict) and ("field" in coding or "aggregate" in coding):
            parts.append(f"{channel} {coding.get('aggregate') or ''} {coding.get('field') or ''}")
    return " ".join(f"{mark} of {', '.join(parts[:6])}".split()) if parts else str(mark)


def _complain(what, error):
    reason = f"{type(error).__name__}: {error}".strip()
    print(f"The altair chart {what}: {reason[:_MAX_REASON_CHARS]}", file=sys.stderr)
