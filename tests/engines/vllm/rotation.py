"""Which of the long tests a run has: all with BATON_FULL, else one of them, by BATON_SEED."""

import os
import unittest

LONG = ("tied", "hang")


def chosen(name):
    """A decorator that skips what this run leaves out."""
    seed = int(os.environ.get("BATON_SEED") or 0)
    there = bool(os.environ.get("BATON_FULL")) or LONG[seed % len(LONG)] == name
    return unittest.skipUnless(there, "not in this seed's part; --full runs all")
