#!/usr/bin/env python3
"""Live swaps: weights change between two steps of a serving engine. No gate shuts, no request fails, whatever dies in the middle."""

import time
import unittest

from fleet import Fleet, GateWatch, is_pure, read_answers, wait_until
from policies_test import LONG, PROMPT, STEP_MS, Request

TIMES = {"healthInterval": "100ms", "retryFirst": "100ms", "retryMax": "500ms", "engineLost": "5s", "recreateAfter": "500ms", "steady": "300ms"}
LIVE = {"swapMode": "live", "inFlight": "keep", "kv": "keep", "maxUnavailable": "1", "swapDeadline": "20s"}
GROUPS = {"a": {"one": [1]}, "b": {"two": [2]}}


class LiveCase(unittest.TestCase):
    """A fleet on version 1 whose policy says live."""

    groups = GROUPS

    def setUp(self):
        self.fleet = Fleet(self.groups, faults=True, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.fleet.default_update = lambda: LIVE
        self.fleet.start()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.gates = GateWatch(self.fleet)
        self.gates.start()
        self.addCleanup(self.gates.stop)

    def longest_shut(self):
        return max(self.gates.restart().values())

    def swap_record(self, group):
        return self.fleet.group_items()[group].get("lastSwap", {})

    def outcomes(self, group, seq):
        return [outcome for _, to, outcome in self.fleet.outcomes(group) if to == seq]

    def reasons(self, group):
        return [event["reason"] for event in self.fleet.events(f"group/{group}")]

    def check_holds(self, group, version):
        """What a request gets that no cache can answer is purely this version's."""
        body = {"model": "default", "prompt": PROMPT, "max_tokens": 16, "temperature": 0, "logprobs": 1, "cache_salt": f"salt {time.monotonic_ns()}"}
        status, answer = self.fleet.engine_call(f"{group}.e0", "POST", "/v1/completions", body)
        self.assertEqual(200, status, answer)
        choice = answer["choices"][0]
        self.assertTrue(is_pure({"prompt": PROMPT, "text": choice["text"], "logprobs": choice["logprobs"]["token_logprobs"]}, version), choice)


class Live(LiveCase):
    def test_no_gate_shuts_and_no_request_fails(self):
        plan = self.fleet.ctl("roll", "plan", "m")
        self.assertRegex(plan, r"one +.* live ")
        for engine in self.fleet.engines:  # So that the swaps fall into the long answers.
            self.fleet.set_fault(engine, kind="slow", phase="step", ms=STEP_MS, sticky=True)
        traffic = self.fleet.start_traffic(tokens=8)
        running = [Request(self.fleet.engines[e]).wait_tokens(20) for e in ("one.e0", "two.e0")]
        self.gates.restart()
        for version, seq in (("v2", 2), ("v1", 3), ("v2", 4)):
            self.assertEqual(seq, self.fleet.publish(version)["seq"])
            self.fleet.wait_serving(seq)
        self.assertEqual(0, self.longest_shut(), "a gate was shut")
        self.assertTrue(all(request.is_alive() for request in running))
        for engine in self.fleet.engines:
            self.fleet.clear_faults(engine)
        for request in running:
            request.end()
            self.assertEqual((LONG, "length", "1", "4"), (request.count, request.reason, request.version, request.version_end))
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200][:3])
        for engine in ("one.e0", "two.e0"):
            versions = [int(a["version"]) for a in answers if a["engine"] == engine]
            self.assertEqual(sorted(versions), versions)
            self.assertTrue(all(a["version"] <= a["version_end"] for a in answers))
        self.fleet.wait_labels(4)
        for group in ("one", "two"):
            self.check_holds(group, "v2")
            record = self.swap_record(group)
            self.assertEqual(("live", "SWAP_OUTCOME_COMMITTED", "VERIFY_LEVEL_RESIDENT"), (record["mode"], record["outcome"], record["verifyLevel"]))
            self.assertEqual(0, int(record["phases"].get("shutNs", 0)))
            self.assertEqual(["COMMITTED"] * 3, [o for s in (2, 3, 4) for o in self.outcomes(group, s)])
        said = self.fleet.ctl("describe", "group", "one")
        self.assertRegex(said, r"mode +live")
        self.assertRegex(said, r"swap live +can")
        self.assertTrue(any("live" in e["message"] for e in self.fleet.events("group/one") if e["reason"] == "TicketAccepted"))

    def test_a_failure_goes_back_with_open_gates(self):
        """One rank cannot load, or does not do what it says: the old version serves on, and the next try commits."""
        for fault in ({"kind": "fail", "phase": "apply", "rank": 1, "tensor": 7}, {"kind": "lie", "phase": "apply"}, {"kind": "fail", "phase": "stage", "rank": 0}):
            with self.subTest(fault):
                self.fleet.set_fault("two.e0", **fault)
                before = int(self.fleet.group_items()["two"]["committedSeq"])
                self.gates.restart()
                seq = self.fleet.publish("v2" if before % 2 else "v1")["seq"]
                self.fleet.wait_serving(seq)
                self.assertEqual(0, self.longest_shut(), "a gate was shut")
                self.assertEqual("APPLY_FAILED", self.outcomes("two", seq)[0])
                self.assertEqual("COMMITTED", self.outcomes("two", seq)[-1])
                self.assertNotIn("LiveSwapShut", self.reasons("two"))
                self.fleet.clear_faults("two.e0")
        self.check_holds("two", "v2" if seq % 2 == 0 else "v1")

    def test_what_is_neither_is_shut_and_restored(self):
        """Half of the tensors were lost and nobody said so: read back, shut, put back; and then swapped."""
        self.fleet.set_fault("two.e0", kind="lose", phase="apply")
        seq = self.fleet.publish("v2")["seq"]
        self.fleet.wait_serving(seq)
        self.assertEqual(["APPLY_FAILED", "COMMITTED"], self.outcomes("two", seq))
        self.assertIn("LiveSwapShut", self.reasons("two"))
        self.check_holds("two", "v2")

    def test_a_rank_dies_in_the_middle(self):
        """The engine is gone with it: out, recreated, verified."""
        self.fleet.set_fault("two.e0", kind="die", phase="apply", rank=1, tensor=5)
        before = self.fleet.engine_pids()["two.e0"]
        seq = self.fleet.publish("v2")["seq"]
        self.fleet.wait_serving(seq, 90)
        self.assertNotEqual(before, self.fleet.engine_pids()["two.e0"])
        self.assertEqual("OUT", self.outcomes("two", seq)[0])
        self.check_holds("two", "v2")

    def kill_in_the_call(self, *faults):
        """kill -9 of the agent while the one call hangs in rank 0; it comes back when the call has ended."""
        for fault in ({"kind": "hang", "phase": "apply", "rank": 0, "tensor": 5}, *faults):
            self.fleet.set_fault("two.e0", **fault)
        agent = self.fleet.agents["b"]
        traffic = self.fleet.start_traffic(tokens=8, engines=["two.e0"])
        self.gates.restart()
        seq = self.fleet.publish("v2")["seq"]
        fired = lambda: all(f["fired"] for f in self.fleet.engine_call("two.e0", "GET", "/miniengine/faults")[1]["faults"])
        wait_until(lambda: f"the call is under way\n{agent.tail()}", fired, every=0.01)
        agent.kill()
        self.fleet.clear_faults("two.e0")
        wait_until("the call has ended", lambda: self.fleet.engine_call("two.e0", "GET", "/is_paused")[0] == 200)
        agent.start()
        self.fleet.wait_serving(seq)
        self.assertEqual(0, self.longest_shut(), "a gate was shut")
        traffic.stop(70)
        self.assertEqual([], [a for a in read_answers(traffic) if a["status"] != 200][:3])
        self.check_holds("two", "v2")
        self.fleet.wait_labels(seq)
        return self.outcomes("two", seq)

    def test_agent_killed_and_all_ranks_are_new(self):
        self.assertEqual(["COMMITTED"], self.kill_in_the_call())

    def test_agent_killed_and_all_ranks_went_back(self):
        self.assertEqual(["APPLY_FAILED", "COMMITTED"], self.kill_in_the_call({"kind": "fail", "phase": "apply", "rank": 1, "tensor": 3}))


class Impossible(LiveCase):
    groups = {"a": {"pair": [1, 1]}}

    def test_it_waits_and_says_why(self):
        """Two engines cannot change between the same two steps. It is not paused instead, until the policy says so."""
        self.fleet.publish("v2")
        blocked = lambda: self.fleet.group_items()["pair"].get("blockedReason")
        wait_until("it waits", lambda: blocked() == "BLOCKED_REASON_LIVE_IMPOSSIBLE")
        plan = self.fleet.ctl("roll", "plan", "m", "-o", "wide")
        self.assertRegex(plan, "LIVE_IMPOSSIBLE.*several engines")
        said = self.fleet.ctl("describe", "group", "pair")
        self.assertRegex(said, r"swap live +cannot: it has several engines")
        self.assertEqual(0, self.longest_shut())
        self.fleet.apply_model(**{**LIVE, "swapMode": "pause"})
        self.fleet.wait_serving(2)
        self.assertEqual("pause", self.swap_record("pair")["mode"])

    def test_what_contradicts_it_is_refused(self):
        path = self.fleet.dir / "model.yaml"
        for update, word in (
            ({"kv": "flush"}, "kv"),
            ({"inFlight": "wait", "kv": "flush"}, "inFlight"),
            ({"strategy": "Barrier"}, "Barrier"),
            ({"hooks": [{"when": "afterProbe", "url": "http://127.0.0.1:1/x"}]}, "hooks"),
            ({"swapMode": "hot"}, "swapMode"),
        ):
            with self.subTest(word):
                with self.assertRaises(AssertionError) as caught:
                    self.fleet.apply_model(**{**LIVE, **update})
                self.assertIn("spec.update.swapMode", str(caught.exception))
                self.assertIn(word, str(caught.exception))
        self.assertTrue(path.exists())


if __name__ == "__main__":
    unittest.main()
