"""PIL: an image as one picture. By itself it offers both PNG and JPEG."""

import io

from _cellwright import imports, mime

# A larger PNG is usually a photo, for which JPEG is good enough.
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
