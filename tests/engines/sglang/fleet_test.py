"""Real SGLang servers behind a real controller and real agents, and a group of another engine beside them: a publish rolls
through all of them, and back.

s0 and s1 are SGLang servers with the guard, mini is a miniengine: the same model, three nodes.  The tests run in the
order of their names and go on from each other; BATON_BUILD names the build folder."""

import atexit
import json
import os
import pathlib
import signal
import sys
import unittest

import sglang_server

sys.path.append(str(pathlib.Path(__file__).resolve().parent.parent / "vllm"))  # Behind this folder, whose names come first.

import landings  # noqa: E402
import vllm_fleet  # noqa: E402
from vllm_fleet import BOOT_SECONDS, SWAP_SECONDS, fleet  # noqa: E402

GROUPS = {"node-a": {"s0": [1]}, "node-b": {"s1": [1]}, "node-c": {"mini": [1]}}
SGLANG = ("s0", "s1")
# SGLang's kernels round otherwise than those of the expected answers, by 0.004 at most; versions differ by more, and in words.
fleet.TOLERANCE = 0.01
# Of agents on a machine whose few cores the engines, the traffic and the tests share.
PATIENT = {"engineLost": "120s", "opShort": "60s", "opLong": "240s", "restoreBound": "480s"}


class MixedFleet(vllm_fleet.VllmFleet):
    def engine_config(self, agent, group, index, ranks):
        if group not in SGLANG:
            return fleet.Fleet.engine_config(self, agent, group, index, ranks)
        port = fleet.free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        self.engines[f"{group}.e{index}"] = url
        recreate = {"exec": {"command": sglang_server.command("{checkpoint}", port),
                             "env": [f"{name}={value}" for name, value in sglang_server.ENVIRONMENT.items()]}}  # fmt: skip
        return {"name": f"e{index}", "kind": "sglang", "url": url, "recreate": recreate}

    def sglang_engines(self):
        return [engine for engine in self.engines if engine.split(".")[0] in SGLANG]

    def sglang_answers(self):
        return {engine: self.answers(engine) for engine in self.sglang_engines()}


class RealFleet(unittest.TestCase):
    """served: {version: {engine: answers}}."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = MixedFleet(GROUPS, times=PATIENT)
        cls.addClassCleanup(cls.fleet.close)
        atexit.register(cls.fleet.close)  # Also when the run is ended from outside.
        cls.fleet.start()
        cls.served, cls.traffic, cls.begun = {}, None, []

    def setUp(self):
        """Each test goes on from the one before."""
        self.assertEqual([], self.begun, "a test before this one did not end well")
        self.begun.append(self.id())

    def ended_well(self):
        self.begun.clear()

    def story(self):
        events = [self.fleet.ctl("events", f"group/{group}") for groups in GROUPS.values() for group in groups]
        return "\n".join([*events, self.fleet.tails()])

    def wait_serving(self, seq, seconds=SWAP_SECONDS):
        try:
            self.fleet.wait_serving(seq, seconds)
        except AssertionError as error:
            raise AssertionError(f"{error}\n{self.story()}") from error

    def check_committed(self, seq):
        """Verified inside the engine, on every engine; labels and gates read back."""
        for name, group in self.fleet.group_items().items():
            self.assertEqual("SWAP_OUTCOME_COMMITTED", group["lastSwap"]["outcome"], self.story())
            self.assertEqual("VERIFY_LEVEL_RESIDENT", group["verifyLevel"], name)
        for engine in self.fleet.sglang_engines():
            self.assertEqual(str(seq), self.fleet.call(engine, "GET", "/model_info")["weight_version"], engine)
            status = self.fleet.call(engine, "GET", "/baton/guard")
            self.assertEqual(("open", seq), (status["gate"], status["version"]), engine)

    def await_answers(self, seq):
        """Until the traffic has an answer of each engine that is this version's from begin to end."""
        def judged():
            good = [a for a in fleet.read_answers(self.traffic) if a["status"] == 200]
            return {a["engine"] for a in good if a["version"] == a["version_end"] == str(seq)}

        fleet.wait_until(lambda: f"answers of v{seq}, only {judged()}", lambda: judged() == set(self.fleet.engines), SWAP_SECONDS)

    def check_all_answered(self):
        answers = fleet.read_answers(self.traffic)
        failed = [a for a in answers if a["status"] != 200]
        self.assertFalse(failed, f"{len(failed)} of {len(answers)} requests failed: {failed[:3]}")
        return answers

    def print_pauses(self):
        """One JSON object a group: where the time of its last swap went."""
        for name, group in sorted(self.fleet.group_items().items()):
            phases = {k.removesuffix("Ns"): round(int(v) / 1e6, 1) for k, v in group["lastSwap"]["phases"].items()}
            print(json.dumps({"name": f"sglang_fleet_pause_{name}", "value": phases["shut"], "unit": "ms", "phases_ms": phases}), flush=True)

    def test_1_groups_join_on_the_first_publish(self):
        self.fleet.publish("v1", "--optimizer-step", 100)
        self.wait_serving(1, BOOT_SECONDS)
        self.served["v1"] = self.fleet.sglang_answers()
        for engine in self.fleet.get("engines"):
            self.assertEqual("open", engine["gate"], engine)
        self.assertIn("dialect disk", self.fleet.ctl("describe", "group", "s0"))
        self.ended_well()

    def test_2_publish_rolls_through_both_kinds_under_traffic(self):
        type(self).traffic = self.fleet.start_traffic(
            1800, vllm_fleet.TRAFFIC_TOKENS, patience=vllm_fleet.PATIENCE_SECONDS)  # fmt: skip
        self.await_answers(1)
        self.assertEqual(2, self.fleet.publish("v2", "--optimizer-step", 200)["seq"])
        self.wait_serving(2)
        self.assertEqual(0, self.fleet.run("wait", "m", "--for=converged", "--timeout", "240s")[0])
        self.check_committed(2)
        self.print_pauses()
        self.await_answers(2)
        self.check_all_answered()
        self.ended_well()

    def test_3_undo_rolls_back_under_traffic(self):
        self.assertIn("v1", self.fleet.ctl("roll", "undo", "m", "--reason", "reward collapsed"))
        self.wait_serving(1)
        self.check_committed(1)
        self.traffic.stop(vllm_fleet.PATIENCE_SECONDS + 10)
        self.check_all_answered()
        self.assertEqual(self.served["v1"], self.fleet.sglang_answers())
        self.ended_well()

    def test_4_no_answer_was_mixed(self):
        """All that began and ended on one version are that version's and no mixture, by both kinds of engines."""
        judged = fleet.check_answers(self.check_all_answered(), {1: "v1", 2: "v2"})
        print(f"  {judged} answers judged", flush=True)
        self.ended_well()

    def test_5_a_server_that_dies_comes_back_on_its_target(self):
        """So it is a fresh server on v2: what was swapped in before answers as it does."""
        self.fleet.ctl("resume", "model/m")
        self.fleet.ctl("roll", "start", "m", "--to", 2)
        self.wait_serving(2)
        swapped = self.fleet.sglang_answers()
        boot = self.fleet.call("s0.e0", "GET", "/baton/guard")["bootId"]
        os.kill(self.fleet.engine_pids()["s0.e0"], signal.SIGKILL)
        shut = lambda: not self.fleet.group_items()["s0"].get("gateOpen")  # noqa: E731
        fleet.wait_until("the group is shut", shut, SWAP_SECONDS)
        self.wait_serving(2, BOOT_SECONDS)
        self.assertNotEqual(boot, self.fleet.call("s0.e0", "GET", "/baton/guard")["bootId"])
        self.assertEqual(swapped, self.fleet.sglang_answers())
        self.assertNotEqual(swapped, self.served["v1"])
        self.ended_well()

    def test_6_what_would_end_a_server_never_reaches_it(self):
        """A version of another shape: no server hears of it, and all serve on."""
        def narrow(tensors):
            return {n: t[:-1].clone() if n == "model.norm.weight" else t for n, t in tensors.items()}

        boots = {e: self.fleet.call(e, "GET", "/baton/guard")["bootId"] for e in self.fleet.sglang_engines()}
        folder, _ = landings.land(self.fleet.dir, "narrow", "v1", narrow)
        code, out, err = self.fleet.run("publish", folder, "--model", "m")
        if code == 0:
            blocked = lambda: "LAYOUT" in self.fleet.ctl("describe", "group", "s0")  # noqa: E731
            fleet.wait_until(lambda: self.fleet.ctl("describe", "group", "s0"), blocked, SWAP_SECONDS)
        else:
            self.assertIn("model.norm.weight", out + err)
        for engine, boot in boots.items():
            status = self.fleet.call(engine, "GET", "/baton/guard")
            self.assertEqual((boot, "open", 2), (status["bootId"], status["gate"], status["version"]))
            self.assertIn("/", self.fleet.call(engine, "GET", "/model_info")["model_path"])
        self.ended_well()


if __name__ == "__main__":
    unittest.main()
