#!/usr/bin/env python3
"""api/python/examples/rl_loop.py with two engines: it learns, it takes nothing that is too old, and every version label is true."""

import json
import os
import subprocess
import sys
import unittest

import fleet

STEPS, BATCH, LAG = 12, 32, 1
POLICY = {"maxUnavailable": "1", "inFlight": "abort", "staleness": {"bound": LAG}, "slots": {"samplesPerPublish": BATCH, "ttl": "10m"}}


class Loop(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = fleet.Fleet({"node": {"g0": [1], "g1": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.apply_model(**POLICY)
        cls.steps = cls.run_loop()

    @classmethod
    def run_loop(cls):
        """What the example said of each step."""
        argv = [sys.executable, "-W", "ignore", str(fleet.ROOT / "api/python/examples/rl_loop.py"), "--checkpoint", str(fleet.DATA / "v1")]
        argv += ["--steps", str(STEPS), "--batch", str(BATCH), "--lag", str(LAG), "--verify"]
        env = {**os.environ, "BATON_SERVER": cls.fleet.server, "BATON_AGENT": f"unix:{cls.fleet.dir}/node.sock"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=900 * fleet.PATIENCE)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}\n{cls.fleet.tails()}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_it_learns_what_the_first_version_cannot(self):
        """The last batch's mean lies above the best single sample of the first version."""
        self.assertEqual(list(range(1, STEPS + 1)), [step["step"] for step in self.steps])
        self.assertGreater(self.steps[-1]["reward"], self.steps[0]["best"], [round(s["reward"], 2) for s in self.steps])

    def test_nothing_too_old_is_trained_on(self):
        for step in self.steps:
            self.assertTrue(all(step["consumer"] - LAG <= oldest <= step["consumer"] for oldest in step["oldest"]), step)
            self.assertGreaterEqual(len(step["oldest"]), 1, "there was something to train on")
        faults = [step["late"] for step in self.steps]
        self.assertEqual([[]] * 2 + [["TOO_STALE"]] * (STEPS - 2), faults, "the sample that comes again is refused once it lags two publishes")

    def test_every_label_is_true(self):
        """Log-probabilities computed again under each token's version; the engines compute in float32."""
        worst = max(step["error"] for step in self.steps)
        self.assertLess(worst, fleet.TOLERANCE)
        self.assertEqual({"g0", "g1"}, {group for step in self.steps for group in step["groups"]})

    def test_one_lineage_one_group_at_a_time(self):
        self.assertEqual(list(range(2, STEPS + 2)), [step["published"] for step in self.steps])
        self.fleet.wait_serving(STEPS + 1)
        versions = {int(v["seq"]): v for v in self.fleet.get("versions") if v.get("seq")}
        self.assertEqual(list(range(1, STEPS + 1)), [int(versions[seq].get("parentSeq", 0)) for seq in range(2, STEPS + 2)])
        self.assertEqual(str(STEPS), versions[STEPS + 1]["optimizerStep"])
        away = issued = 0
        for event in self.fleet.events():
            issued += event["reason"] == "TicketIssued"
            away += (event["reason"] == "TicketIssued") - (event["reason"] in ("SwapEnded", "SwapFailed") and event["message"].startswith("ticket"))
            self.assertLessEqual(away, 1, "two groups were swapped at once")
        self.assertGreaterEqual(issued, STEPS, "nearly each step reached each group")


if __name__ == "__main__":
    unittest.main()
