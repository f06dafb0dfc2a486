import struct
import zlib


class Figure:
    """Its picture is its size in one colour: red counts what was drawn, green is the figure's number."""

    def __init__(self, figsize=(2, 1), dpi=100):
        self.figsize = figsize
        self.dpi = dpi
        self.patch = object()
        self.drawn = []
        self.number = None
        self.draws = 0

    def __repr__(self):
        return f"<Figure with {len(self.drawn)} lines>"

    def get_children(self):
        return [self.patch, *self.drawn]

    def get_size_inches(self):
        return self.figsize

    def show(self, warn=True):
        self.canvas.manager.show()

    def savefig(self, file, format="png", dpi=None, bbox_inches=None):
        self.draws += 1
        if "broken" in self.drawn:
            raise ValueError("this line\n  cannot be drawn")
        width, height = (round(side * (dpi or self.dpi)) for side in self.figsize)
        row = b"\0" + bytes((len(self.drawn), self.number or 0, 0)) * width
        # Noise compresses badly; here it is empty blocks of its size.
        packed = zlib.compress(row * height, 0 if "noise" in self.drawn else 9)
        data = _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)) + _chunk(b"IDAT", packed)
        picture = b"\x89PNG\r\n\x1a\n" + data + _chunk(b"IEND", b"")
        if isinstance(file, str):
            with open(file, "wb") as opened:
                opened.write(picture)
        else:
            file.write(picture)


def _chunk(kind, data):
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
