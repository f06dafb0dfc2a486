"""plotly's `fig.write_image()`: kaleido needs to start a browser; if it cannot, the error explains what to do."""

import functools

from _cellwright import imports

_ADVICE = (
    "Writing a plotly figure as an image needs kaleido and a Chrome or Chromium that the code itself can start, "
    "which is not possible here ({reason}). "
    "Showing a figure needs neither: fig.show(), or fig as the last line of a cell, displays it as a picture, "
    'with its JSON and HTML page as files. fig.write_html("figure.html") writes the page into the workspace.'
)


def install(_show):
    imports.after("plotly.io._kaleido", _explain_failures)


def _explain_failures(module):
    for name in ("to_image", "write_image", "write_images"):
        if hasattr(module, name):
            setattr(module, name, _explained(getattr(module, name)))


def _explained(export):
    @functools.wraps(export)
    def explained(*args, **options):
        try:
            return export(*args, **options)
        except Exception as error:
            if not _is_about_browser(error):
                raise
            reason = " ".join(f"{type(error).__name__}: {error}".split())
            # `from None`, because the original's advice to install a browser cannot be followed in a jail.
            raise RuntimeError(_ADVICE.format(reason=reason[:100])) from None

    return explained


def _is_about_browser(error):
    """False for an error that has been explained already, and for a wrong argument."""
    origin = type(error).__module__.partition(".")[0]
    if origin in ("kaleido", "choreographer") or isinstance(error, (ImportError, TimeoutError)):
        return True
    said = str(error).lower()
    return "write_html" not in said and ("kaleido" in said or "chrome" in said) and "format" not in said[:40]
