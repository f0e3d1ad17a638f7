#!/usr/bin/env python3
"""A roll step by step through real processes: canary hold and advance, checks over gRPC, abort, promote, bursts, restarts between."""

import json
import sys
import unittest

import fleet
from fleet import Fleet, wait_until

sys.path.insert(0, str(fleet.ROOT / "tests/conformance"))
try:
    import grpc
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    grpc = None

GROUPS = {"a": {"g0": [1], "g1": [1]}, "b": {"g2": [1]}}
HOLD = {"groups": "1", "hold": True}


class Canary(unittest.TestCase):
    """One fleet for all tests of the class; they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(GROUPS)
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)

    def on(self, seq):
        return sum(int(g.get("committedSeq", 0)) == seq and g.get("gateOpen", False) for g in self.fleet.group_items().values())

    def roll(self):
        return self.fleet.get("rolls")[0]

    def wait_for(self, wait, seq):
        """Until the roll's canary waits for it with one group on 'seq'."""
        waits = lambda: self.roll().get("canaryWait") == wait and self.on(seq) == 1
        wait_until(lambda: f"the canary waits for {wait} with one group on {seq}: {self.roll()}\n{self.fleet.tails()}", waits, 60)
        self.assertEqual(1, self.on(seq))

    def apply(self, **update):
        self.fleet.apply_model(maxUnavailable="1", **update)

    def reasons(self):
        return {g.get("blockedReason") for g in self.fleet.group_items().values()} - {None, "BLOCKED_REASON_UNSPECIFIED"}

    def publish(self, version):
        return int(self.fleet.publish(version)["seq"])

    def test_1_holds_through_a_restart_until_advance(self):
        self.apply(canary=[HOLD])
        seq = self.publish("v2")
        self.wait_for("Hold", seq)
        wait_until(lambda: f"the others hold: {self.reasons()}", lambda: self.reasons() == {"BLOCKED_REASON_CANARY_HOLD"})
        self.fleet.controller.kill()
        self.fleet.controller.start()
        self.fleet.wait_controller()
        self.wait_for("Hold", seq)
        out = self.fleet.ctl("roll", "advance", "m", "--reason", "looks good")
        self.assertIn("advanced", out)
        self.fleet.wait_serving(seq)
        self.fleet.wait_roll(seq)
        history = self.fleet.ctl("roll", "history", "m")
        self.assertRegex(history, r"advance by \S+: looks good")

    def test_2_abort_goes_back_and_quarantines(self):
        before = int(self.fleet.get("models")[0]["status"]["promotedSeq"])
        seq = self.publish("v1")
        self.wait_for("Hold", seq)
        self.fleet.ctl("roll", "abort", "m", "--reason", "repeats itself")
        self.fleet.wait_serving(before)
        code, _, err = self.fleet.run("roll", "start", "m", "--to", seq)
        self.assertEqual(1, code, err)
        self.fleet.ctl("resume", "model/m")
        code, _, err = self.fleet.run("roll", "start", "m", "--to", seq)
        self.assertIn("quarantined: repeats itself", err)
        self.fleet.wait_roll(seq, "ABORTED")

    @unittest.skipIf(grpc is None, "python3-grpcio is not installed")
    def test_3_a_foreign_evaluator_reports(self):
        self.apply(
            canary=[{"groups": "1", "checks": ["reward", "probe"]}],
            checks=[{"name": "reward", "kind": "Metric", "compare": ">=", "threshold": 0.5}, {"name": "probe", "kind": "Probe", "tolerance": 0.01}],
        )
        seq = self.publish("v1")
        self.wait_for("Check", seq)
        server = Reflected(self.fleet.server)
        call, request, _ = server.method("baton.v1.Rolls/ReportCheck")
        with self.assertRaises(grpc.RpcError) as caught:
            call(request(model="m", check="reward", seq=1, value=0.9), timeout=TIMEOUT_S)
        self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, caught.exception.code())
        call(request(model="m", check="reward", seq=seq, value=0.2, options={"requested_by": "judge"}), timeout=TIMEOUT_S)
        self.wait_for("CheckFailed", seq)
        wait_until(lambda: f"the others wait: {self.reasons()}", lambda: self.reasons() == {"BLOCKED_REASON_CHECK_FAILED"})
        self.assertEqual(1, self.fleet.run("roll", "advance", "m")[0])
        answer = call(request(model="m", check="reward", seq=seq, value=0.7), timeout=TIMEOUT_S)
        self.assertEqual(seq, answer.to_seq)
        self.fleet.wait_serving(seq)

    def test_4_promote_skips_what_is_left(self):
        self.apply(canary=[HOLD, {"groups": "2", "soak": "1h"}])
        seq = self.publish("v2")
        self.wait_for("Hold", seq)
        self.fleet.ctl("roll", "promote", "m")
        self.assertEqual(seq, int(self.fleet.get("models")[0]["status"]["promotedSeq"]))
        self.fleet.wait_serving(seq)

    def test_5_a_soaking_group_keeps_its_slot(self):
        self.apply(soak="9m")
        seq = self.publish("v1")
        wait_until(lambda: f"one soaks: {self.reasons()}", lambda: "BLOCKED_REASON_SOAKING" in self.reasons())
        self.assertEqual(1, self.on(seq))
        self.apply(soak="1s")
        self.fleet.wait_serving(seq)

    def test_6_a_burst_costs_one_roll(self):
        self.apply()
        before = {name: int(g["committedSeq"]) for name, g in self.fleet.group_items().items()}
        self.fleet.ctl("suspend", "model/m")
        for i in range(20):
            last = self.publish(f"v{i % 2 + 1}")
        self.assertEqual(before, {name: int(g["committedSeq"]) for name, g in self.fleet.group_items().items()})
        self.fleet.ctl("resume", "model/m")
        self.fleet.wait_serving(last)
        swaps = [o for g in before for o in self.fleet.outcomes(g) if o[1] > max(before.values())]
        self.assertEqual([last] * 3, [o[1] for o in swaps])

    def test_7_order_and_bad_files(self):
        self.apply(order="g2,g0")
        seq = self.publish("v1")
        self.fleet.wait_serving(seq)
        model = json.loads(self.fleet.ctl("get", "models", "-o", "json"))["items"][0]
        self.assertEqual("g2,g0", model["spec"]["update"]["order"])
        with self.assertRaises(AssertionError) as caught:
            self.apply(canary=[{"groups": "1", "checks": ["nobody"]}])
        self.assertIn("spec.update.canary.checks", str(caught.exception))

    def test_8_plan_and_trace(self):
        self.apply(trigger="Manual", canary=[HOLD])
        seq = self.publish("v2")
        before = len(self.fleet.get("rolls"))
        plan = json.loads(self.fleet.ctl("roll", "plan", "m", "--order", "g2", "-o", "json"))
        self.assertEqual(before, len(self.fleet.get("rolls")), "a plan starts nothing")
        self.assertEqual((seq, 3), (int(plan["toSeq"]), plan["waves"]))
        first = plan["groups"][0]
        self.assertEqual(("g2", 1, 1, "PLAN_RESTORE_LANDED"), (first["group"], first["wave"], first["canaryStep"], first["restore"]))
        self.assertIn(first["memory"], ("PLAN_MEMORY_FITS", "PLAN_MEMORY_LANDED"))
        self.assertTrue(first["pause"] and first["stage"] and plan["total"] and plan["swapTime"])
        self.assertRegex(self.fleet.ctl("roll", "plan", "m"), r"(?s)3 waves.*WAVE.*canary 1")
        self.fleet.ctl("roll", "start", "m", "--order", "g2,g1")
        self.wait_for("Hold", seq)
        self.assertEqual(seq, int(self.fleet.group_items()["g2"]["committedSeq"]))
        self.fleet.ctl("roll", "advance", "m")
        self.fleet.wait_serving(seq)
        trace = json.loads(self.fleet.ctl("roll", "trace", "m"))["traceEvents"]
        tracks = {e["tid"]: e["args"]["name"] for e in trace if e["name"] == "thread_name"}
        self.assertEqual({"g0", "g1", "g2"}, set(tracks.values()))
        for tid in tracks:
            slices = {e["name"]: e for e in trace if e["tid"] == tid and e["ph"] == "X"}
            self.assertLessEqual({"apply", "commit", "open"}, set(slices))
            self.assertTrue(all(e["dur"] > 0 and e["ts"] >= 0 for e in slices.values()))
            self.assertGreater(slices["open"]["ts"], slices["apply"]["ts"])


if __name__ == "__main__":
    unittest.main()
