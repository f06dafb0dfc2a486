"""altair: charts as PNG, drawn by vl-convert without a browser, where it is installed."""

import importlib.util

from _cellwright import imports


def install():
    imports.after("altair", _draw_pictures)


def _draw_pictures(altair):
    if importlib.util.find_spec("vl_convert") is not None:
        altair.renderers.enable("png")
