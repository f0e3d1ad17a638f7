#!/usr/bin/env python3
"""tests/unit/publisher_test.py where there is PyTorch: the suite "unit" has none, and skips what needs it."""

import os
import subprocess
import sys
import unittest

from fleet import BUILD, PATIENCE, ROOT


class Tensors(unittest.TestCase):
    def test_with_pytorch(self):
        argv = [sys.executable, "-W", "ignore", ROOT / "tests/unit/publisher_test.py", BUILD / "tests/local_recorder_main", os.environ["BATON_LIB"]]
        argv += [ROOT / "api/python", "-v", "Torch", "Ranks"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=600 * PATIENCE, check=False)
        self.assertEqual(0, done.returncode, done.stderr[-3000:])
        self.assertNotIn("skipped", done.stderr)


if __name__ == "__main__":
    unittest.main()
