"""The README's section "Use it with vLLM": its file is written and its commands run as they stand, with a real server.

What this machine needs is put in: where the environment is, free ports, a scratch folder for each of the section's,
and what a server on a CPU wants besides."""

import os
import pathlib
import shutil
import sys
import unittest

import vllm_fleet
from vllm_fleet import fleet

import pages  # Of tests/e2e, whose folder vllm_fleet adds.

HEADING = "Use it with vLLM"
FOLDERS = ("/etc/baton", "/var/lib/baton", "/var/log/baton", "/run/baton")
ON_A_CPU = "--enforce-eager --max-model-len 512 --dtype bfloat16 --middleware"
ENVIRONMENT = {
    "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1", "PIP_QUIET": "1",
    "VLLM_NO_USAGE_STATS": "1", "HF_HUB_OFFLINE": "1", "VLLM_CPU_KVCACHE_SPACE": "1",
    "VLLM_CPU_OMP_THREADS_BIND": "nobind", "OMP_NUM_THREADS": "1",
}  # fmt: skip


class Readme(unittest.TestCase):
    def begin(self):
        """A page whose shell stands in a clone's place: pip leaves files beside what it installs."""
        page = pages.Page("../../README.md", FOLDERS, {"e0": 8000})
        self.addCleanup(page.close)
        self.addCleanup(self.end, page)
        page.substitutes += [(r"/opt/vllm\b", str(pathlib.Path(sys.executable).parents[1])), ("--middleware", ON_A_CPU)]
        shutil.copytree(fleet.ROOT / "api/python", page.dir / "api/python", ignore=shutil.ignore_patterns("__pycache__"))
        exports = "".join(f"export {name}={value}\n" for name, value in ENVIRONMENT.items())
        page.sh(exports)
        return page

    def end(self, page):
        """Servers are asked first: a killed one leaves its shared memory.  Where a block failed, its shell has ended."""
        if page.shell.poll() is None:
            page.sh("kill $(jobs -p) && wait || true\n", "the end", vllm_fleet.END_SECONDS)

    def test_use_it_with_vllm(self):
        page = self.begin()
        page.run(HEADING, vllm_fleet.BOOT_SECONDS)
        said = page.log.read_text(encoding="utf-8", errors="replace")
        self.assertRegex(said, r"(?m)^ok +self-update .*the same output as before")
        self.assertNotRegex(said, r"(?m)^(FAIL|warn) ")
        self.assertRegex(said, r"(?m)^ *way in +plug-?in")
        self.assertRegex(said, r"(?mi)^x-baton-version: 2")


if __name__ == "__main__":
    unittest.main()
