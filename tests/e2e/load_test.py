"""The load generator of tests/bench with a small fleet: what it plays is answered, and every figure comes out. No figure is judged."""

import json
import subprocess
import unittest

from fleet import BUILD, PATIENCE

FIGURES = {
    "heartbeat", "rss", "summary", "publish_to_first_goal", "publish_to_each_goal", "staged_to_ticket", "roll_cpu", "watchers", "watchers_roll",
    "watchers_behind", "watchers_messages", "restart", "restart_all_restated",
}
MISSED_A_TARGET = 1


class Load(unittest.TestCase):
    def test_small_fleet(self):
        argv = [str(BUILD / "tests/load_bench"), "--agents=5,12", "--rounds=2", "--watchers=30", "--idle=1", "--land-ms=100", "--swap-ms=30"]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=300 * PATIENCE, check=False)
        self.assertIn(done.returncode, (0, MISSED_A_TARGET), done.stderr)
        lines = [json.loads(line) for line in done.stdout.splitlines()]
        for agents in (5, 12):
            self.assertEqual({line["name"].removeprefix("load_") for line in lines if line["agents"] == agents}, FIGURES)
        for line in lines:
            if "samples" in line:
                self.assertGreater(line["samples"], 0)
                self.assertGreaterEqual(line["p50"], 0, "a message came before what it answers")
