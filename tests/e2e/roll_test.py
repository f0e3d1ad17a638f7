#!/usr/bin/env python3
"""One publish rolls through a real fleet, and back: groups of one engine, of two ranks, of two engines."""

import json
import os
import signal
import unittest

from fleet import Fleet, check_answers, read_answers, wait_until

GROUPS = {"node-a": {"g0": [1], "g1": [2]}, "node-b": {"g2": [1, 1]}}


class Roll(unittest.TestCase):
    """One fleet for all tests of the class; they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(GROUPS)
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1", "--optimizer-step", 100)
        cls.fleet.wait_serving(1)
        cls.names = {1: "v1"}

    def seq(self, version, **options):
        result = self.fleet.publish(version, **options)
        self.names[result["seq"]] = version
        return result["seq"]

    def check_traffic(self, traffic):
        traffic.stop(70)
        answers = read_answers(traffic)
        failed = [a for a in answers if a["status"] != 200]
        self.assertEqual([], failed[:3], f"{len(failed)} of {len(answers)} requests failed")
        return check_answers(answers, self.names)

    def test_1_publish_rolls_without_a_failed_request(self):
        traffic = self.fleet.start_traffic()
        seq = self.seq("v2")
        self.fleet.wait_serving(seq)
        self.assertEqual(0, self.fleet.run("wait", "m", "--for=converged", "--timeout", "30s")[0])
        judged = self.check_traffic(traffic)
        self.assertGreater(judged, 10)
        self.fleet.wait_labels(seq)
        for group in self.fleet.group_items().values():
            self.assertEqual("SWAP_OUTCOME_COMMITTED", group["lastSwap"]["outcome"])
            self.assertEqual("VERIFY_LEVEL_RESIDENT", group["verifyLevel"])
            self.assertEqual(0, int(group.get("lagPublishes", 0)))

    def test_2_the_budget_was_kept(self):
        """maxUnavailable 1: the swaps of test 1 did not overlap."""
        busy, swaps = set(), 0
        for event in self.fleet.events():
            if event["reason"] == "TicketIssued" and "version 0 ->" not in event["message"]:
                busy.add(event["object"])
                swaps += 1
                self.assertEqual({event["object"]}, busy)
            elif event["reason"] == "SwapEnded":
                busy.discard(event["object"])
        self.assertEqual(3, swaps)

    def test_3_undo_goes_back_and_holds(self):
        traffic = self.fleet.start_traffic()
        out = self.fleet.ctl("roll", "undo", "m", "--reason", "reward collapsed")
        self.assertIn("v1", out)
        self.fleet.wait_serving(1)
        self.check_traffic(traffic)
        self.fleet.wait_labels(1)
        model = self.fleet.get("models")[0]
        self.assertTrue(model["status"]["held"])
        self.assertEqual(1, int(model["status"]["promotedSeq"]))
        history = json.loads(self.fleet.ctl("roll", "history", "m", "-o", "json"))["items"]
        self.assertEqual(("undo", "reward collapsed"), (history[0]["cause"], history[0]["reason"]))

    def test_4_a_held_model_stores_but_does_not_roll(self):
        seq = self.seq("v3")
        code, out, _ = self.fleet.run("wait", "m", "--timeout", "20s")
        self.assertEqual(6, code, out)
        self.assertEqual({1}, {int(g["committedSeq"]) for g in self.fleet.group_items().values()})
        self.assertTrue(all(g["blockedReason"] == "BLOCKED_REASON_MODEL_HELD" for g in self.fleet.group_items().values()))
        self.fleet.ctl("resume", "model/m")
        self.fleet.wait_serving(seq)
        self.assertEqual(0, self.fleet.run("roll", "status", "m", "--timeout", "30s")[0])

    def blocked(self):
        return {g.get("blockedReason") for g in self.fleet.group_items().values()}

    def wait_blocked(self, reason):
        wait_until(lambda: f"all blocked by {reason}: {self.blocked()}", lambda: self.blocked() == {f"BLOCKED_REASON_{reason}"})

    def test_5_a_suspended_model_and_a_paused_roll_issue_no_ticket(self):
        self.fleet.ctl("suspend", "model/m")
        self.addCleanup(self.fleet.ctl, "resume", "model/m")
        self.seq("v2")
        self.wait_blocked("MODEL_SUSPENDED")
        node_b = self.fleet.agents["node-b"].popen.pid
        os.kill(node_b, signal.SIGSTOP)  # Its group holds the roll open.
        self.addCleanup(os.kill, node_b, signal.SIGCONT)
        self.fleet.ctl("resume", "model/m")
        wait_until("the roll began", lambda: self.fleet.get("rolls")[0]["state"] == "ROLL_STATE_PROGRESSING")
        self.fleet.ctl("roll", "pause", "m")
        newest = self.seq("v1")  # Starts a new roll, but lifts no pause.
        os.kill(node_b, signal.SIGCONT)
        self.wait_blocked("ROLL_PAUSED")
        self.fleet.ctl("roll", "resume", "m")
        self.fleet.wait_serving(newest)

    def test_6_manual_trigger_waits_for_start(self):
        self.fleet.apply_model(trigger="Manual", maxUnavailable="50%")
        seq = self.seq("v3")
        self.assertNotIn(seq, {int(g["committedSeq"]) for g in self.fleet.group_items().values()})
        self.fleet.ctl("roll", "start", "m", "--to", seq)
        self.fleet.wait_serving(seq)
        self.fleet.apply_model(maxUnavailable="1")

    def test_7_a_burst_costs_one_roll_to_the_newest(self):
        for _ in range(4):
            last = self.seq("v2")
            last = self.seq("v3")
        self.fleet.wait_serving(last)
        self.fleet.wait_roll(last)
        rolls = self.fleet.get("rolls")
        self.assertEqual(last, int(rolls[0]["toSeq"]))
        self.assertTrue(all(r["state"] in ("ROLL_STATE_SUPERSEDED", "ROLL_STATE_COMPLETED", "ROLL_STATE_UNDONE") for r in rolls))


if __name__ == "__main__":
    unittest.main()
