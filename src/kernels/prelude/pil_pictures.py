"""PIL: an image as one picture. It offers itself as PNG and as JPEG, which is the same twice."""

import io

from _cellwright import imports, mime

# What is larger as PNG is a photo, and is one as JPEG too.
_MAX_PNG_BYTES = 3_000_000
_JPEG_QUALITY = 90


def install(_show):
    imports.after("PIL.Image", _register)


def _register(module):
    mime.register(module.Image, _forms)


def _forms(image):
    png = image._repr_png_()
    if png is None or len(png) <= _MAX_PNG_BYTES:
        return {} if png is None else {"image/png": png}
    file = io.BytesIO()
    image.convert("RGB").save(file, format="JPEG", quality=_JPEG_QUALITY)
    return {"image/jpeg": file.getvalue()}
