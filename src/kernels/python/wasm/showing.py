"""`display()` and `clear_output()`, as notebooks have them."""

import uuid

from _cellwright import mime, plots


class Handle:
    """The result of `display(..., display_id=...)`: a display whose content can be replaced."""

    def __init__(self, show, display_id):
        self._show = show
        self.display_id = display_id

    def display(self, value, **options):
        self._show("display", value, self.display_id, **options)

    def update(self, value, **options):
        self._show("update", value, self.display_id, **options)

    def __repr__(self):
        return f"<DisplayHandle display_id={self.display_id}>"


def create(output):
    """The two functions, bound to this output."""

    def show(kind, value, display_id, raw=False, **_options):
        data = value if raw and isinstance(value, dict) else mime.bundle(value)
        event = {"type": kind}
        if display_id is not None:
            event["displayId"] = display_id
        output.display(mime.to_json(event, data))

    def display(*values, display_id=None, update=False, clear=False, **options):
        """Shows values in the richest form they offer. With display_id, returns a handle whose update() replaces it."""
        if display_id is True:
            display_id = uuid.uuid4().hex
        if display_id is not None:
            display_id = str(display_id)
        if update and display_id is None:
            raise TypeError("display_id is required when update is True")
        if clear:
            clear_output(wait=True)
        for value in values:
            show("update" if update else "display", value, display_id, **options)
        return None if display_id is None or update else Handle(show, display_id)

    def clear_output(wait=False):
        """Removes what this cell has shown so far; with wait, only when something new is shown."""
        output.event({"type": "clear", "wait": bool(wait)})
        plots.forget_shown()

    return display, clear_output
