"""Plotting libraries: figures are shown when the code asks for it, or at the end of the cell."""

import sys

from _cellwright import (
    altair_figures,
    bokeh_figures,
    great_tables_pages,
    matplotlib_figures,
    pil_pictures,
    plotly_export,
    plotly_figures,
)

# Each has the three functions below, and touches its library only after a cell has imported it.
_libraries = (matplotlib_figures, plotly_figures, bokeh_figures)
# Stateless: these have only `install`.
_forms = (altair_figures, plotly_export, pil_pictures, great_tables_pages)


def install(show):
    """`show(data)` displays a MIME bundle in the output of the cell that runs."""
    for library in (*_libraries, *_forms):
        library.install(show)


def forget_shown():
    """The output was cleared: figures may be shown again."""
    for library in _libraries:
        library.forget_shown()


def end_cell(value=None, interrupted=False):
    """
    Shows open figures that have not been shown. `value`: the cell's result, which the kernel has shown already.
    `interrupted`: draw nothing. Raises no Exception: a failing plot does not fail its cell.
    """
    for library in _libraries:
        try:
            library.end_cell(value, interrupted)
        except Exception as error:
            print(f"Open figures could not be shown: {type(error).__name__}: {error}", file=sys.stderr)
