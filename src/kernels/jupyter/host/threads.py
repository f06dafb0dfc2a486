"""What a thread shows belongs to the cell that started it, also when that cell is long over."""

import contextvars
import functools
import threading


def keep_context():
    """Threads run in a copy of the context they are started in, as tasks do."""
    start = threading.Thread.start
    if getattr(start, "keeps_context", False):
        return

    @functools.wraps(start)
    def start_in_context(self):
        # By `partial`, which adds no frame of ours to the thread's tracebacks.
        self.run = functools.partial(contextvars.copy_context().run, self.run)
        start(self)

    start_in_context.keeps_context = True
    threading.Thread.start = start_in_context
