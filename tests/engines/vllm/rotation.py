"""Which of the long tests a run has: all with BATON_FULL, else one of them, by BATON_SEED."""

import os
import unittest

LONG = ("tied", "hang", "version")


def of(things):
    """Those of a list that this run has."""
    seed = int(os.environ.get("BATON_SEED") or 0)
    return list(things) if os.environ.get("BATON_FULL") else [things[seed % len(things)]]


def chosen(name):
    """A decorator that skips what this run leaves out."""
    return unittest.skipUnless(name in of(LONG), "not in this seed's part; --full runs all")
