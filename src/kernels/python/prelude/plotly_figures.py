"""plotly: a figure as JSON and as a self-contained page, with a short summary. Opens no browser."""

import json
import sys
from collections.abc import Callable

from _cellwright import imports, mime, plotly_summary

# Characters of a figure as JSON. A larger one is shown by its summary only.
_MAX_JSON_CHARS = 4_000_000
# A larger figure gets no page, which would not fit beside the JSON.
_MAX_PAGE_JSON_CHARS = 1_000_000
# Pages per cell. Each contains all of plotly.js, some 5 MB, and a cell may show 16 MB of displays.
_MAX_PAGES = 3

_show: Callable[[dict], None]
# Marks of the figures that this cell has shown.
_shown = set()
_pages = 0


def install(show):
    global _show
    _show = show
    imports.after("plotly.basedatatypes", _register)
    imports.after("plotly.io._renderers", _show_here)


def forget_shown():
    _shown.clear()


def end_cell(_value, _interrupted):
    global _pages
    forget_shown()
    _pages = 0


def _register(module):
    mime.register(module.BaseFigure, _forms)


def _show_here(module):
    def show(fig, renderer=None, validate=True, *, config=None, **_options):
        """Shows the figure in the cell's output. There is no other place, whatever renderer is asked for."""
        _show(_bundle(fig, config) or {"text/plain": mime.plain(fig)})

    module.show = show


def _forms(figure):
    return _bundle(figure) or {}


def _bundle(figure, config=None):
    """None if the figure cannot be written as JSON; prints the failure."""
    from plotly.io import to_json

    try:
        text = to_json(figure, validate=False)
        content = json.loads(text)
    except Exception as error:
        _complain("could not be shown", error)
        return None
    # Hash and length identify the text well enough and need no memory.
    mark = (hash(text), len(text))
    if mark in _shown:
        return {"text/plain": f"{plotly_summary.heading(content)}, as shown above"}
    _shown.add(mark)
    summary = plotly_summary.summary(content)
    if len(text) > _MAX_JSON_CHARS:
        size = f"{len(text) / 1e6:.0f} MB"
        note = f"(The figure itself is too large to show, {size}: fig.write_html(path) saves it.)"
        return {"text/plain": f"{summary}\n{note}"}
    data = {"text/plain": summary, "application/vnd.plotly.v1+json": content}
    page = _page(figure, config) if len(text) <= _MAX_PAGE_JSON_CHARS else None
    if page is not None:
        data["text/html"] = page
    elif len(text) > _MAX_PAGE_JSON_CHARS:
        data["text/plain"] += "\n(Too large for an HTML page. fig.write_html(path) writes one.)"
    elif _pages >= _MAX_PAGES:
        data["text/plain"] += f"\n(No HTML page: the limit of a cell is {_MAX_PAGES}. fig.write_html(path) writes one.)"
    return data


def _page(figure, config):
    global _pages
    if _pages >= _MAX_PAGES:
        return None
    from plotly.io import to_html

    try:
        # A fixed id makes the page of the same figure identical, so that it is stored once.
        page = to_html(figure, config=config, include_plotlyjs=True, validate=False, div_id="figure")
    except Exception as error:
        _complain("has no page", error)
        return None
    _pages += 1
    return page


def _complain(what, error):
    reason = " ".join(f"{type(error).__name__}: {error}".split())
    print(f"The plotly figure {what}: {reason[:300]}", file=sys.stderr)
