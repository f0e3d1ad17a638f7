#!/usr/bin/env python3
"""batonctl layout: files only, no daemon; what scripts get: exit codes, JSON, and the page's own example."""

import json
import pathlib
import re
import subprocess
import tempfile
import unittest

from fleet import program

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "deploy/docs/layouts.md").read_text(encoding="utf-8")
CHECKPOINT = ROOT / "tests/data/qwen3-tiny/v2"


class Layout(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        for name, block in zip(("trainer.yaml", "engine.yaml"), re.findall(r"```yaml\n(.*?)```", PAGE, re.S)):
            (self.folder / name).write_text(block, encoding="utf-8")

    def run_layout(self, code, *words):
        done = subprocess.run([program("batonctl"), "layout", *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=False)
        self.assertEqual(code, done.returncode, f"{words}: {done.stdout}{done.stderr}")
        return done.stdout + done.stderr

    def test_page_shows_what_is_printed(self):
        """Each command of the page's example prints what stands below it."""
        session = re.search(r"```\n(\$ batonctl layout plan.*?)```", PAGE, re.S).group(1)
        for command, expected in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)+)", session, re.M):
            self.assertTrue(command.startswith("batonctl layout "))
            words, _, pattern = command.partition(" | grep ")
            out = self.run_layout(0, *words.split()[2:])
            lines = [line for line in out.splitlines(keepends=True) if pattern in line]
            self.assertEqual(expected, "".join(lines))

    def test_check_and_exit_codes(self):
        self.assertIn("holds", self.run_layout(0, "check", "engine.yaml"))
        self.assertEqual("", self.run_layout(0, "check", "engine.yaml", "-q"))
        bad = self.folder / "bad.yaml"
        bad.write_text("metadata: {name: b}\nmesh: [{axis: tp, size: 4}]\ntensors: [{name: w, dtype: BF16, shape: [6]}]\nrules: [{match: w, shard: tp}]\n", encoding="utf-8")
        self.assertRegex(self.run_layout(1, "check", "bad.yaml"), r"bad\.yaml: layout b: w: 6 units of 1 do not go evenly into 4 shards")
        self.assertRegex(self.run_layout(1, "check", "none.yaml"), "No such file")
        self.run_layout(2, "check")
        self.run_layout(2, "shrink", "engine.yaml")
        self.run_layout(2, "show", "engine.yaml", "--rank", 4)
        self.run_layout(2, "show", "engine.yaml", "--rank", 1 << 32)
        checked = json.loads(self.run_layout(0, "check", "engine.yaml", "-o", "json"))
        self.assertTrue(checked["holds"])

    def test_a_checkpoint_goes_into_an_engine(self):
        """Every copy comes from rank 0, and each rank's boxes arrive whole."""
        plan = json.loads(self.run_layout(0, "plan", CHECKPOINT, "engine.yaml", "--copies", "-o", "json"))
        self.assertEqual(plan["copies"], len(plan["copyList"]))
        self.assertEqual({0}, {copy["from"] for copy in plan["copyList"]})
        ranks = json.loads(self.run_layout(0, "show", "engine.yaml", "-o", "json"))["ranks"]
        self.assertEqual(plan["deliveredBytes"], sum(rank["bytes"] - rank["paddingBytes"] for rank in ranks))
        self.assertEqual(plan["bytes"], plan["sourceLinkBytesMax"])

    def test_diff(self):
        self.assertIn("the same layout", self.run_layout(0, "diff", "engine.yaml", "engine.yaml"))
        found = json.loads(self.run_layout(1, "diff", "trainer.yaml", "engine.yaml", "-o", "json"))
        self.assertFalse(found["same"])
        self.assertIn("model.layers.0.self_attn.q_proj.weight", {row["tensor"] for row in found["differences"]})
        engine = (self.folder / "engine.yaml").read_text(encoding="utf-8")
        (self.folder / "drops.yaml").write_text(engine.replace("drop: [", "drop: ['*.never_sent', "), encoding="utf-8")
        self.assertIn("*: other drop rules", self.run_layout(1, "diff", "engine.yaml", "drops.yaml"))
        text = (self.folder / "engine.yaml").read_text(encoding="utf-8").replace("heads: 4", "heads: 8")
        (self.folder / "other.yaml").write_text(text, encoding="utf-8")
        self.assertRegex(self.run_layout(1, "diff", "engine.yaml", "other.yaml"), r"q_proj.weight: shape \[128, 128\], \[256, 128\]")
        self.assertRegex(self.run_layout(1, "plan", "engine.yaml", "other.yaml"), r"q_proj.weight: shape \[128, 128\] here, \[256, 128\] there")


if __name__ == "__main__":
    unittest.main()
