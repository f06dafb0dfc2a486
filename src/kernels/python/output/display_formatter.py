"""IPython's display formatter, with our limits and our forms of plots."""

from IPython.core.formatters import DisplayFormatter

from _cellwright import mime


class BoundedFormatter(DisplayFormatter):
    def format(self, value, include=None, exclude=None):
        if mime.is_registered(value):
            return _ready(mime.bundle(value)), {}
        data, metadata = super().format(value, include=include, exclude=exclude)
        if not data and hasattr(type(value), "_ipython_display_"):
            # It has shown itself.
            return data, metadata
        if include is None and "text/plain" not in data and "text/plain" not in (exclude or ()):
            data["text/plain"] = mime.plain(value)
        return _ready(data), metadata


def _ready(data):
    ready = mime.ready(data)
    text = ready.get("text/plain")
    if isinstance(text, str):
        ready["text/plain"] = mime.shorten(text)
    return ready
