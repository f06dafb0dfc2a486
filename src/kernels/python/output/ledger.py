"""
The state of requests: which have begun, and the newest one's output and reply. After a lost connection, a server asks
for it, gets the output that it missed, and knows which requests never arrived.
"""

import collections
import json
import threading

# Limit for the newest cell's messages. The oldest are dropped: a reconnecting server has usually received them.
MAX_BYTES = 16 * 1024 * 1024
# Limit of one answer; the rest is requested separately.
MAX_ANSWER_BYTES = 4 * 1024 * 1024
_REMEMBERED = 1_000


class Ledger:
    """A journal (see outbox.py) in memory."""

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
        """Wraps ipykernel's handler of execute requests: ignores requests that have begun before."""

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
        """Part of a journal's interface; not needed, because messages name their cell."""

    def write(self, frames):
        """A sent message: topic, delimiter, signature, header, parent, metadata, content."""
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
        """`cell`: its id; default: the newest. `skip`: how many of its messages the server already got this way."""
        with self._lock:
            cell = question.get("cell") or self._newest
            if cell not in self._begun:
                return {"state": "unknown"}
            if cell != self._newest:
                return {"state": "over", "cell": cell}
            answer = {
                "state": "newest",
                "cell": cell,
                "code": self._request["code"],
                "silent": self._request["silent"],
                "dropped": self._dropped,
            }
            skip = max(0, question.get("skip", 0) - self._dropped)
            messages = list(self._messages)[skip:]
            reply = self._reply
        answer["messages"] = []
        size = 0
        for message in messages:
            size += _bytes_of(message)
            if answer["messages"] and size > MAX_ANSWER_BYTES:
                return {**answer, "more": True}
            answer["messages"].append(dict(zip(("header", "parent", "metadata", "content"), map(json.loads, message))))
        # Last: a server that has the reply has everything.
        return answer if reply is None else {**answer, "reply": reply}


def _bytes_of(message):
    return sum(map(len, message))
