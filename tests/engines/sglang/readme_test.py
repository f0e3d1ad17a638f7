"""The README's section "With SGLang", as it stands: its file, its commands, on a real server.

A machine without a GPU adds what deploy/docs/sglang.md says of one; the environment's own Python is used."""

import json
import pathlib
import sys
import unittest

import sglang_server

sys.path.append(str(pathlib.Path(__file__).resolve().parents[2] / "e2e"))

import pages  # noqa: E402

README, SECTION = "../../README.md", "With SGLang"
FOLDERS = ("/etc/baton", "/var/lib/baton", "/var/log/baton", "/run/baton")
BLOCK_SECONDS = 1500  # The server's start is in it.


class Readme(unittest.TestCase):
    def setUp(self):
        self.page = pages.Page(README, FOLDERS, {"g0.e0": 30000})
        self.addCleanup(self.page.close)
        flags = ", ".join(json.dumps(flag) for flag in sglang_server.ON_A_CPU)
        env = json.dumps([f"{name}={value}" for name, value in sglang_server.ENVIRONMENT.items()])
        self.page.substitutes += [
            (r"\[python3, -m, sglang", f"[{sys.executable}, -m, sglang"),
            (r"^( +)(command: .*--skip-server-warmup)\]", rf"\1\2, {flags}]\n\1env: {env}"),
        ]

    def run_blocks(self):
        for language, path, text in self.page.sections[SECTION]:
            if language == "yaml":
                made = "\n".join(self.page.translate(line) for line in text.splitlines())
                self.page.path(path).write_text(made + "\n")
            else:
                said = self.page.sh(text, SECTION, BLOCK_SECONDS)
        return said

    def test_the_section_as_it_stands(self):
        try:
            said = self.run_blocks()
        except AssertionError as error:
            logs = sorted(self.page.dir.glob("**/engines/*.log"))
            raise AssertionError("\n".join([str(error), *(log.read_text(errors="replace")[-3000:] for log in logs)])) from error
        self.assertIn("dialect disk", said)
        (group,) = json.loads(self.page.sh("batonctl get groups -o json 2>/dev/null\n"))["items"]
        self.assertEqual(("2", "VERIFY_LEVEL_RESIDENT", True), (str(group["committedSeq"]), group["verifyLevel"], group["gateOpen"]))


if __name__ == "__main__":
    unittest.main()
