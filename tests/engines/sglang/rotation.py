"""Which of the tests that cost a server a run has: all with BATON_FULL, else one, by BATON_SEED."""

import os
import unittest

DEATHS = ("truncated", "shape", "release", "resume", "peer")


def chosen(name):
    """A decorator that skips what this run leaves out."""
    seed = int(os.environ.get("BATON_SEED") or 0)
    there = bool(os.environ.get("BATON_FULL")) or DEATHS[seed % len(DEATHS)] == name
    return unittest.skipUnless(there, "not in this seed's part; --full runs all")
