#!/usr/bin/env python3
"""api/python/examples/rl_loop.py with two engines: it learns, it takes nothing that is too old, and every version label is true."""

import atexit
import json
import os
import subprocess
import sys
import unittest

import fleet

BATCH, LAG = 32, 1
POLICY = {"inFlight": "abort", "staleness": {"bound": LAG}, "slots": {"samplesPerPublish": BATCH, "ttl": "10m"}}


class Loop(unittest.TestCase):
    """With two miniengines, which compute in float32 as the trainer does."""

    STEPS, RATE, TOLERANCE, SECONDS = 12, 2e-3, fleet.TOLERANCE, 60

    @staticmethod
    def make_fleet():
        return fleet.Fleet({"node": {"g0": [1], "g1": [1]}})

    @classmethod
    def setUpClass(cls):
        cls.fleet = cls.make_fleet()
        cls.addClassCleanup(cls.fleet.close)
        atexit.register(cls.fleet.close)  # Also when the run is ended from outside.
        cls.fleet.start()
        cls.fleet.apply_model(**cls.fleet.default_update(), **POLICY)
        cls.steps = cls.run_loop()

    @classmethod
    def run_loop(cls):
        """What the example said of each step."""
        argv = [sys.executable, "-W", "ignore", str(fleet.ROOT / "api/python/examples/rl_loop.py"), "--checkpoint", str(fleet.DATA / "v1")]
        argv += ["--steps", str(cls.STEPS), "--rate", str(cls.RATE), "--batch", str(BATCH), "--lag", str(LAG), "--verify"]
        env = {**os.environ, "BATON_SERVER": cls.fleet.server, "BATON_AGENT": f"unix:{cls.fleet.dir}/node.sock"}
        done = subprocess.run(argv, env=env, capture_output=True, text=True, check=False, timeout=900 * fleet.PATIENCE)
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr[-3000:]}\n{cls.fleet.tails()}"
        return [json.loads(line) for line in done.stdout.splitlines()]

    def test_it_learns_what_the_first_version_cannot(self):
        """The mean of a batch at the end lies above the best single sample of the first version."""
        self.assertEqual(list(range(1, self.STEPS + 1)), [step["step"] for step in self.steps])
        print([round(step["reward"], 2) for step in self.steps], self.steps[0]["best"], [step["errors"] for step in self.steps])
        self.assertGreater(max(step["reward"] for step in self.steps[-3:]), self.steps[0]["best"])

    def test_nothing_too_old_is_trained_on(self):
        for step in self.steps:
            self.assertTrue(all(step["consumer"] - LAG <= oldest <= step["consumer"] for oldest in step["oldest"]), step)
            self.assertGreaterEqual(len(step["oldest"]), 1, "there was something to train on")
        faults = [step["late"] for step in self.steps]
        self.assertEqual([[]] * 2 + [["TOO_STALE"]] * (self.STEPS - 2), faults, "the sample that comes again is refused once it lags two publishes")

    def test_every_label_is_true(self):
        """Log-probabilities computed again are the engine's under the version that each token names, and not under the one before it."""
        self.assertLess(max(step["errors"][0] for step in self.steps), self.TOLERANCE)
        later = [step["errors"] for step in self.steps if max(step["oldest"]) > 1]
        self.assertTrue(all(own < before for own, before in later), later)
        self.assertGreater(max(before for _, before in later), 2 * self.TOLERANCE)
        self.assertLessEqual({group for step in self.steps for group in step["groups"]}, {"g0", "g1"})

    def test_one_lineage_one_group_at_a_time(self):
        self.assertEqual(list(range(2, self.STEPS + 2)), [step["published"] for step in self.steps])
        self.fleet.wait_serving(self.STEPS + 1, self.SECONDS)
        versions = {int(v["seq"]): v for v in self.fleet.get("versions") if v.get("seq")}
        self.assertEqual(list(range(1, self.STEPS + 1)), [int(versions[seq].get("parentSeq", 0)) for seq in range(2, self.STEPS + 2)])
        self.assertEqual(str(self.STEPS), versions[self.STEPS + 1]["optimizerStep"])
        away = issued = 0
        for event in self.fleet.events():
            issued += event["reason"] == "TicketIssued"
            away += (event["reason"] == "TicketIssued") - (event["reason"] in ("SwapEnded", "SwapFailed") and event["message"].startswith("ticket"))
            self.assertLessEqual(away, 1, "two groups were swapped at once")
        self.assertGreaterEqual(issued, self.STEPS // (LAG + 1), "samples of each second version at least were there")


if __name__ == "__main__":
    unittest.main()
