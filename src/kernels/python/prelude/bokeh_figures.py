"""bokeh: a plot as a self-contained page, with a summary of one line. Starts no server and opens no browser."""

import sys
from collections.abc import Callable

from _cellwright import imports, mime

# Pages per cell. Each contains all of BokehJS, 1.3 MB.
_MAX_PAGES = 5

_show: Callable[[dict], None]
_pages = 0


def install(show):
    global _show
    _show = show
    imports.after("bokeh.models.layouts", _register)
    imports.after("bokeh.io.showing", _show_here)
    imports.after("bokeh.io.output", _need_no_loading)


def forget_shown():
    """Nothing to forget: plots are shown each time they are requested."""


def end_cell(_value, _interrupted):
    global _pages
    _pages = 0


def _register(module):
    # A plot as a cell's result, which in a notebook is a list of its properties.
    mime.register(module.LayoutDOM, _forms)


def _show_here(module):
    def show(obj, *_args, **_options):
        """Shows the plot in the cell's output; with output_file() it is written there too."""
        state = module.curstate()
        if state.file:
            module.save(obj, state=state)
        _show(_forms(obj) or {"text/plain": mime.plain(obj)})

    module.show = show


def _need_no_loading(module):
    def output_notebook(*_args, **_options):
        """Does nothing: each plot is a self-contained page."""

    module.output_notebook = output_notebook


def _forms(plot):
    global _pages
    summary = _summary(plot)
    if _pages >= _MAX_PAGES:
        note = f"(Not shown: the limit of a cell is {_MAX_PAGES}. bokeh.io.save(plot, path) saves it.)"
        return {"text/plain": f"{summary}\n{note}"}
    from bokeh.embed import file_html
    from bokeh.resources import INLINE

    try:
        page = file_html(plot, INLINE, title=summary)
    except Exception as error:
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"The bokeh plot could not be shown: {reason[:300]}", file=sys.stderr)
        return {}
    _pages += 1
    return {"text/plain": summary, "text/html": page}


def _summary(plot):
    """One line."""
    try:
        return _told(plot)
    except Exception:
        return "bokeh plot"


def _told(plot):
    from bokeh.models import Plot

    plots = [plot] if isinstance(plot, Plot) else list(plot.select({"type": Plot})) if hasattr(plot, "select") else []
    return "; ".join(map(_plot, plots[:6])) or f"bokeh {type(plot).__name__}"


def _plot(plot):
    words = "bokeh plot"
    title = getattr(plot.title, "text", None)
    if isinstance(title, str) and title:
        words += f' "{title[:60]}"'
    glyphs = [type(renderer.glyph).__name__ for renderer in plot.renderers if hasattr(renderer, "glyph")]
    if glyphs:
        words += f": {', '.join(dict.fromkeys(glyphs))}"
    labels = [axis.axis_label for axis in [*plot.below, *plot.left] if getattr(axis, "axis_label", None)]
    if labels:
        words += f"; axes: {', '.join(str(label)[:60] for label in labels)}"
    return " ".join(words.split())
