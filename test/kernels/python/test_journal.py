"""A journal at its limits: no suite prints that much, or fills a disk."""

import os
import struct
import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[3] / "src/kernels/python/output"))

import journal


def record(*frames):
    return struct.pack(">I", len(frames)) + b"".join(struct.pack(">I", len(frame)) + frame for frame in frames)


class JournalTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.fd = os.open(os.path.join(folder.name, "journal"), os.O_CREAT | os.O_RDWR | os.O_APPEND)
        self.addCleanup(os.close, self.fd)
        self.journal = journal.Journal(self.fd)

    def written(self):
        return os.pread(self.fd, os.fstat(self.fd).st_size, 0)

    def test_keeps_the_frames_of_each_message(self):
        self.journal.write([b"topic", memoryview(b"content")])
        self.journal.write([])
        self.assertEqual(self.written(), record(b"topic", b"content") + record())

    def test_keeps_nothing_after_something_that_had_no_room(self):
        self.journal.begin_cell()
        self.journal.write([b"first"])
        self.journal.write([bytes(journal.MAX_BYTES)])
        self.journal.write([b"small"])
        self.assertEqual(self.written(), record(b"first"))
        self.journal.begin_cell()
        self.journal.write([b"next cell"])
        self.assertEqual(self.written(), record(b"first") + record(b"next cell"))

    def test_is_cut_at_the_next_cell_when_it_has_grown_large(self):
        self.journal.write([bytes(5 * 1024 * 1024)])
        self.journal.begin_cell()
        self.journal.write([b"next cell"])
        self.assertEqual(self.written(), record(b"next cell"))

    def test_survives_a_full_disk(self):
        full = os.open("/dev/full", os.O_WRONLY)
        self.addCleanup(os.close, full)
        broken = journal.Journal(full)
        broken.write([b"lost"])
        broken.write([b"lost, too"])
        broken.begin_cell()


if __name__ == "__main__":
    unittest.main()
