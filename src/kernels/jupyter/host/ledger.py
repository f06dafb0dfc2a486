"""
What became of requests: which have begun, and what the newest of them has shown and was answered. A server that was cut
off asks; what it has not seen is then told again, and what never arrived is known not to have run.
"""

import collections
import json
import threading

# Of the newest cell's messages, the later ones: those are what a server that was there from the beginning has missed.
MAX_BYTES = 16 * 1024 * 1024
# Of one answer; the rest is asked for again.
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_REMEMBERED = 1_000


class Ledger:
    """A journal (see outbox.py) that is kept in memory."""

    def __init__(self):
        self._lock = threading.Lock()
        self._begun = collections.OrderedDict()
        self._newest = None
        self._request = {}
        self._reply = None
        self._messages = collections.deque()
        self._bytes = 0
        self._dropped = 0

    def once(self, handle):
        """ipykernel's handler of execute requests, for those that have not begun before."""

        async def handle_once(stream, ident, request):
            if self._begin(request["header"]["msg_id"], request["content"]):
                await handle(stream, ident, request)

        return handle_once

    def _begin(self, cell, request):
        with self._lock:
            if cell in self._begun:
                return False
            self._begun[cell] = True
            if len(self._begun) > _REMEMBERED:
                self._begun.popitem(last=False)
            self._newest = cell
            self._request = request
            self._reply = None
            self._messages.clear()
            self._bytes = self._dropped = 0
        return True

    def begin_cell(self):
        """A journal's; what is written says by itself whose it is."""

    def write(self, frames):
        """A message as it is sent: topic, delimiter, signature, header, parent, metadata, content."""
        message = [bytes(memoryview(frame)) for frame in frames[3:7]]
        with self._lock:
            if self._newest is None or self._newest.encode() not in message[1]:
                return
            self._messages.append(message)
            self._bytes += _bytes_of(message)
            while self._bytes > MAX_BYTES:
                self._bytes -= _bytes_of(self._messages.popleft())
                self._dropped += 1

    def replied(self, cell, content):
        with self._lock:
            if cell == self._newest:
                self._reply = content

    def answer(self, question):
        """`cell`: which, else the newest. `skip`: how many of its messages the server has been told in this way."""
        with self._lock:
            cell = question.get("cell") or self._newest
            if cell not in self._begun:
                return {"state": "unknown"}
            if cell != self._newest:
                return {"state": "over", "cell": cell}
            told = {
                "state": "newest",
                "cell": cell,
                "code": self._request["code"],
                "silent": self._request["silent"],
                "dropped": self._dropped,
            }
            skip = max(0, question.get("skip", 0) - self._dropped)
            messages = list(self._messages)[skip:]
            reply = self._reply
        told["messages"] = []
        size = 0
        for message in messages:
            size += _bytes_of(message)
            if told["messages"] and size > MAX_ANSWER_BYTES:
                return {**told, "more": True}
            told["messages"].append(dict(zip(("header", "parent", "metadata", "content"), map(json.loads, message))))
        # Last of all: whoever has it has all the rest.
        return told if reply is None else {**told, "reply": reply}


def _bytes_of(message):
    return sum(map(len, message))
