"""What a ledger still has of a cell with much output: the suites on Jupyter servers print little."""

import asyncio
import json
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "src/kernels/python/output"))

import ledger


def request(cell, code="1"):
    return {"header": {"msg_id": cell}, "content": {"code": code, "silent": False}}


def message(cell, text):
    parts = [{"msg_id": f"shown-{cell}"}, {"msg_id": cell}, {}, {"text": text}]
    return [b"topic", b"<IDS|MSG>", b"signature", *(json.dumps(part).encode() for part in parts)]


class LedgerTest(unittest.TestCase):
    def setUp(self):
        self.ledger = ledger.Ledger()
        self.ran = []

        async def handle(_stream, _ident, request):
            self.ran.append(request["header"]["msg_id"])

        self.handle = self.ledger.once(handle)

    def begin(self, *cells):
        for cell in cells:
            asyncio.run(self.handle(None, None, request(cell)))

    def texts(self, skip=0):
        return [each["content"]["text"] for each in self.ledger.answer({"skip": skip})["messages"]]

    def test_runs_no_request_twice(self):
        self.begin("a", "b", "a", "b", "c")
        self.assertEqual(self.ran, ["a", "b", "c"])

    def test_knows_what_has_begun_and_which_is_the_newest(self):
        self.begin("a", "b")
        self.assertEqual(self.ledger.answer({"cell": "never"}), {"state": "unknown"})
        self.assertEqual(self.ledger.answer({"cell": "a"}), {"state": "over", "cell": "a"})
        self.assertEqual(self.ledger.answer({})["cell"], "b")

    def test_tells_of_the_newest_cell_what_the_server_has_not_been_told(self):
        self.begin("a")
        self.ledger.write(message("a", "earlier"))
        self.begin("b")
        for text in ("one", "two", "three"):
            self.ledger.write(message("b", text))
        self.ledger.write(message("a", "late"))
        self.assertEqual(self.texts(), ["one", "two", "three"])
        self.assertEqual(self.texts(skip=2), ["three"])

    def test_gives_the_reply_with_the_last_of_the_messages(self):
        self.begin("a")
        large = "x" * (ledger.MAX_ANSWER_BYTES // 2)
        for _ in range(3):
            self.ledger.write(message("a", large))
        self.ledger.replied("another", {"status": "error"})
        self.ledger.replied("a", {"status": "ok"})
        first = self.ledger.answer({})
        self.assertTrue(first["more"])
        self.assertNotIn("reply", first)
        last = self.ledger.answer({"skip": 2})
        self.assertNotIn("more", last)
        self.assertEqual(last["reply"], {"status": "ok"})

    def test_drops_the_earliest_messages_beyond_its_bound_and_says_how_many(self):
        self.begin("a")
        large = "x" * (ledger.MAX_BYTES // 4)
        for count in range(6):
            self.ledger.write(message("a", f"{count}{large}"))
        told = self.ledger.answer({})
        self.assertEqual(told["dropped"], 3)
        self.assertEqual(told["messages"][0]["content"]["text"][0], "3")
        self.assertEqual(self.ledger.answer({"skip": 4})["messages"][0]["content"]["text"][0], "4")


if __name__ == "__main__":
    unittest.main()
