"""Plotting libraries: what they draw is shown where the code asks for it, or at the end of the cell."""

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

# Each has the three functions below, and touches its library only when a cell has imported it.
_libraries = (matplotlib_figures, plotly_figures, bokeh_figures)
# These remember nothing of a cell: they have the first one only.
_forms = (altair_figures, plotly_export, pil_pictures, great_tables_pages)


def install(show):
    """`show(data)` displays a MIME bundle in the output of the cell that runs."""
    for library in (*_libraries, *_forms):
        library.install(show)


def forget_shown():
    """What this cell has shown was cleared: it may be shown again."""
    for library in _libraries:
        library.forget_shown()


def end_cell(value=None, interrupted=False):
    """
    Shows what is open and has not been seen yet. `value` is what the kernel has shown as the cell's result; a cell that
    was interrupted has no time left for drawing. Raises no Exception: a plot that fails does not fail its cell.
    """
    for library in _libraries:
        try:
            library.end_cell(value, interrupted)
        except Exception as error:
            print(f"Open figures could not be shown: {type(error).__name__}: {error}", file=sys.stderr)
