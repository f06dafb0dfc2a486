"""matplotlib: figures as PNG, on `show()` and at the end of a cell, each once, as in notebooks."""

import io
import os
import sys
from collections.abc import Callable

from _cellwright import imports, mime

# Longest side. A model sees about a third of this; the rest is for users who open the picture.
_MAX_SIDE_PX = 4096
# Limit of one picture. A larger one is drawn again with fewer pixels until it fits.
_MAX_BYTES = 2_000_000
# Open figures shown at once: each takes time to draw, and a reply shows ten.
_MAX_FIGURES = 50
_PAD_INCHES = 0.1
# Text far outside the axes would make the tight box mostly empty; beyond this factor, the figure's own frame is used.
_MAX_STRETCH = 3

_show: Callable[[dict], None]
# Figures that this cell has shown, by id, with their pictures.
_shown = {}


def install(show):
    global _show
    _show = show
    os.environ.setdefault("MPLBACKEND", "Agg")
    imports.after("matplotlib.figure", _register)
    imports.after("matplotlib.backends.backend_agg", _use_own_canvas)


def forget_shown():
    _shown.clear()


def end_cell(value, interrupted):
    """Shows every open figure that is new or has changed, and closes all of them."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    if helpers is None:
        return
    try:
        if interrupted:
            _say_not_drawn(len(helpers.Gcf.figs), "the cell was interrupted")
        else:
            _show_open(helpers.Gcf, except_for=value)
    finally:
        forget_shown()
        helpers.Gcf.destroy_all()


def _register(module):
    def show(self, warn=True):
        """Shows this figure in the cell's output, also one that was closed at the end of an earlier cell."""
        _show_new(self)

    module.Figure.show = show
    mime.register(module.Figure, _forms)


def _use_own_canvas(module):
    """Agg draws into memory and shows nothing; this canvas adds `show`."""
    from matplotlib._pylab_helpers import Gcf
    from matplotlib.backend_bases import FigureManagerBase

    class FigureManager(FigureManagerBase):
        def show(self):
            _show_new(self.canvas.figure)

        @classmethod
        def pyplot_show(cls, *_args, block=None, **_options):
            # block=False, as for plt.pause(): the figure stays open, and its last state is shown at the cell's end.
            if block is not False:
                _show_open(Gcf)
                Gcf.destroy_all()

    class FigureCanvas(module.FigureCanvasAgg):
        manager_class = FigureManager

        def start_event_loop(self, timeout=0):
            """Returns at once: no events will come, so without a timeout it would wait forever."""

    module.FigureCanvas = FigureCanvas
    module.FigureManager = FigureManager
    # If these are missing, pyplot takes both from the canvas.
    for name in ("new_figure_manager", "show"):
        vars(module).pop(name, None)


def _show_open(gcf, except_for=None):
    managers = sorted(gcf.get_all_fig_managers(), key=lambda manager: manager.num)
    for manager in managers[:_MAX_FIGURES]:
        if manager.canvas.figure is not except_for:
            _show_new(manager.canvas.figure)
    _say_not_drawn(len(managers) - _MAX_FIGURES, f"{_MAX_FIGURES} are shown at a time")


def _say_not_drawn(count, reason):
    if count > 0:
        figures = "1 open figure was" if count == 1 else f"{count} open figures were"
        print(f"{figures} not drawn: {reason}. display(fig) shows one that a variable holds.", file=sys.stderr)


def _show_new(figure):
    """Shows the figure, unless this cell has shown it and it still looks the same."""
    picture = _draw(figure)
    _, seen = _shown.get(id(figure), (None, None))
    if picture is not None and picture != seen:
        _shown[id(figure)] = (figure, picture)
        _show({"image/png": picture, "text/plain": mime.plain(figure)})


def _forms(figure):
    picture = _draw(figure)
    if picture is None:
        return {}
    _shown[id(figure)] = (figure, picture)
    return {"image/png": picture}


def _draw(figure):
    """The figure as PNG. None if it is empty or cannot be drawn; prints the failure."""
    try:
        if all(child is figure.patch for child in figure.get_children()):
            return None
        return _png(figure)
    except Exception as error:
        number = getattr(figure, "number", None)
        name = "The figure" if number is None else f"Figure {number}"
        reason = " ".join(f"{type(error).__name__}: {error}".split())
        print(f"{name} could not be drawn: {reason[:300]}", file=sys.stderr)
        return None


def _png(figure):
    width, height = figure.get_size_inches()
    box = _tight_box(figure, width, height)
    if box is not None:
        width, height = box.width, box.height
    dpi = min(figure.dpi, _MAX_SIDE_PX / max(width, height))
    while True:
        file = io.BytesIO()
        figure.savefig(file, format="png", dpi=dpi, bbox_inches=box)
        picture = file.getvalue()
        if len(picture) <= _MAX_BYTES:
            return picture
        dpi *= min(0.9, (_MAX_BYTES / len(picture)) ** 0.5)


def _tight_box(figure, width, height):
    """The bounding box of all drawn parts, in inches, so that labels beside the axes are not cut off."""
    try:
        figure.draw_without_rendering()
        box = figure.get_tightbbox().padded(_PAD_INCHES)
        fits = 0 < box.width <= width * _MAX_STRETCH and 0 < box.height <= height * _MAX_STRETCH
        return box if fits else None
    except Exception:
        # Saving either fails for the same reason, or works without the box.
        return None
