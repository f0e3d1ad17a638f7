#!/usr/bin/env python3
"""The README's section "From your trainer": its blocks as they stand, in a copy of the tree, with a fleet of two engines."""

import os
import re
import shutil
import subprocess
import sys
import unittest

import fleet
from fleet import Fleet

import grpc

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
POLICY = {"maxUnavailable": "1", "staleness": {"bound": 1}, "slots": {"samplesPerPublish": 8}}


def blocks():
    """[(language, text)] of the section."""
    text = (fleet.ROOT / "README.md").read_text(encoding="utf-8")
    section = text.split("\n## From your trainer\n")[1].split("\n## ")[0]
    return [(match[1], match[2]) for match in BLOCK.finditer(section)]


class Readme(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet({"node": {"g0": [1], "g1": [1]}})
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.apply_model(**POLICY)
        self.clone = self.fleet.dir / "clone"
        shutil.copytree(fleet.ROOT / "api/python", self.clone / "api/python")
        (self.clone / "tests").mkdir()
        (self.clone / "tests/data").symlink_to(fleet.ROOT / "tests/data")
        (self.clone / "build").symlink_to(fleet.BUILD)

    def environment(self):
        """Packages go to a folder of this test, and none is fetched: what the package asks for is there."""
        packages = self.clone / "packages"
        beside = os.path.dirname(os.path.dirname(grpc.__file__))
        pip = {"PIP_TARGET": str(packages), "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_NO_INDEX": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
        paths = {"PATH": f"{os.path.dirname(sys.executable)}:{os.environ['PATH']}", "PYTHONPATH": f"{packages}:{beside}"}
        return {**os.environ, **pip, **paths, "BATON_SERVER": self.fleet.server, "BATON_AGENT": f"unix:{self.fleet.dir}/node.sock"}

    def test_its_blocks_run(self):
        found = blocks()
        self.assertEqual(["sh", "python"], [language for language, _ in found])
        (self.clone / "loop.py").write_text(found[1][1], encoding="utf-8")
        script = f"set -euo pipefail\n{found[0][1]}\npython -W ignore loop.py\n"
        done = subprocess.run(
            ["bash", "-c", script], cwd=self.clone, env=self.environment(), capture_output=True, text=True, check=False, timeout=600 * fleet.PATIENCE
        )
        self.assertEqual(0, done.returncode, f"{done.stdout}\n{done.stderr[-3000:]}\n{self.fleet.tails()}")
        self.assertRegex(done.stdout, r"version 1\b(.*\n)*version 2\b(.*\n)*8 samples of version 2, 8 accepted")
        self.fleet.wait_serving(2)


if __name__ == "__main__":
    unittest.main()
