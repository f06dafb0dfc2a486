"""A value as a MIME bundle with every form it offers: text as is, binary as base64, JSON as values."""

import base64
import json
import re

# Characters of a text/plain repr. A reply shows a few thousand; the rest is for paging.
MAX_PLAIN_CHARS = 1_000_000
# Characters of a whole bundle as JSON: ten times the size of an image that clients accept.
MAX_BUNDLE_CHARS = 8 * 1024 * 1024

_METHODS = {
    "_repr_html_": "text/html",
    "_repr_markdown_": "text/markdown",
    "_repr_svg_": "image/svg+xml",
    "_repr_png_": "image/png",
    "_repr_jpeg_": "image/jpeg",
    "_repr_latex_": "text/latex",
    "_repr_json_": "application/json",
    "_repr_javascript_": "application/javascript",
    "_repr_pdf_": "application/pdf",
}

_HALVES = re.compile("[\ud800-\udfff]")

_mro_of = type.__dict__["__mro__"].__get__

# Classes whose forms we make, for libraries that leave that to the notebook.
_registered = {}


def register(kind, forms):
    """From now on, `forms(value)` makes the bundle for instances of this class and its subclasses."""
    _registered[kind] = forms


def is_registered(value):
    return _forms_for(value) is not None


def _forms_for(value):
    """Compares by identity and reads the MRO through `type`: a metaclass may override equality and `__mro__`."""
    bases = _mro_of(type(value)) if _registered else ()
    return next((forms for kind, forms in _registered.items() if any(base is kind for base in bases)), None)


def bundle(value):
    """Never raises an Exception: a failing form is left out, a failing repr is described."""
    data = {} if isinstance(value, type) else _forms(value)
    if "text/plain" not in data:
        data["text/plain"] = plain(value)
    return data


def to_json(event, data):
    """The event with its bundle as ASCII JSON; a bundle that is too large is replaced by a sentence."""
    text = json.dumps({**event, "data": ready(data)})
    if len(text) <= MAX_BUNDLE_CHARS:
        return text
    return json.dumps({**event, "data": {"text/plain": too_large(len(text))}})


def escape_halves(text):
    """JSON text with its lone surrogates escaped: UTF-8 has no form for them."""
    return _HALVES.sub(lambda half: "\\u%04x" % ord(half[0]), text)


def too_large(chars):
    """The replacement for a bundle of this many characters."""
    return (
        f"<left out: this output is {chars / 2**20:.0f} MB, and at most {MAX_BUNDLE_CHARS // 2**20} MB can be shown. "
        "Write it to a file in the workspace instead.>"
    )


def plain(value):
    try:
        text = _bounded_repr(value)
    except Exception as error:
        return f"<{type(value).__name__} object; its repr failed with {_described(error)}>"
    return shorten(text)


def shorten(text):
    """Cuts a text/plain form to its limit."""
    if len(text) <= MAX_PLAIN_CHARS:
        return text
    return f"{text[:MAX_PLAIN_CHARS]}… <cut: the repr is longer than {MAX_PLAIN_CHARS} characters>"


def _bounded_repr(value):
    """For a huge builtin, builds only the part of the repr that can be shown."""
    if type(value) in (str, bytes, bytearray, list, tuple) and len(value) > MAX_PLAIN_CHARS:
        return repr(value[: MAX_PLAIN_CHARS + 1])
    text = repr(value)
    return text if type(text) is str else str(text)


def _forms(value):
    forms = _forms_for(value)
    return _offered(value) if forms is None else _attempt(lambda: dict(forms(value))) or {}


def _offered(value):
    data = {}
    # Looked up on the class: an object with a catch-all __getattr__ does not really offer these forms.
    for name, kind in _METHODS.items():
        if getattr(type(value), name, None) is not None:
            form = _attempt(getattr(value, name))
            form = form[0] if isinstance(form, tuple) else form
            if form is not None:
                data[kind] = form
    if getattr(type(value), "_repr_mimebundle_", None) is not None:
        offered = _attempt(lambda: value._repr_mimebundle_(include=None, exclude=None))
        if offered is None:
            offered = _attempt(value._repr_mimebundle_)
        offered = offered[0] if isinstance(offered, tuple) and offered else offered
        if isinstance(offered, dict):
            data.update(offered)
    return data


def _attempt(make):
    try:
        return make()
    except Exception:
        return None


def ready(data):
    """The bundle with forms that JSON can hold."""
    return {str(kind): _json_ready(str(kind), form) for kind, form in data.items() if form is not None}


def _json_ready(kind, form):
    if isinstance(form, (bytes, bytearray, memoryview)):
        if kind.startswith("text/") or kind.endswith("+xml"):
            return bytes(form).decode("utf-8", "replace")
        return base64.b64encode(form).decode("ascii")
    if isinstance(form, str):
        return str(form)
    try:
        json.dumps(form, allow_nan=False)
        return form
    except Exception:
        return plain(form)


def _described(error):
    try:
        return f"{type(error).__name__}: {error}"
    except Exception:
        return type(error).__name__
