"""A thread's output belongs to the cell that started it, even after that cell has ended."""

import contextvars
import functools
import threading


def keep_context():
    """Makes threads run in a copy of their starter's context, as tasks do."""
    start = threading.Thread.start
    if getattr(start, "keeps_context", False):
        return

    @functools.wraps(start)
    def start_in_context(self):
        # `partial` adds no frame to the thread's tracebacks.
        self.run = functools.partial(contextvars.copy_context().run, self.run)
        start(self)

    start_in_context.keeps_context = True  # pyright: ignore[reportAttributeAccessIssue]
    threading.Thread.start = start_in_context
