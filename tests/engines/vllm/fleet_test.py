"""Real vLLM servers behind a real controller and real agents: a publish rolls through them, and back.

g0 is a server of one rank, g1 one of two, on two nodes.  The tests run in the order of their names and go
on from each other; BATON_BUILD names the build folder."""

import atexit
import json
import os
import pathlib
import signal
import subprocess
import unittest

import asking
import baton
import checking
import landings
import rotation
import servers
import vllm_fleet
from vllm_fleet import BOOT_SECONDS, SWAP_SECONDS, VllmFleet, fleet

GROUPS = {"node-a": {"g0": [1]}, "node-b": {"g1": [2]}}
RANKS_OF_GROUP = {"g0": 1, "g1": 2}
# Of agents on a machine whose few cores the engines, the traffic and the tests share.
PATIENT = {"engineLost": "120s", "opShort": "60s", "opLong": "240s", "restoreBound": "480s"}
CONFORMANCE = fleet.BUILD / "tests/engine_conformance"


def digest_of(version):
    lines = (pathlib.Path(landings.DATA) / "../digest/vectors.txt").read_text(encoding="ascii").splitlines()
    return next(line.split()[2] for line in lines if line.startswith(f"checkpoint qwen3-tiny/{version} "))


class RealFleet(unittest.TestCase):
    """served: {version: {engine: answers}}; expected: {seq: {(engine, prompt): answer}} for the traffic."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = VllmFleet(GROUPS, times=PATIENT)
        cls.addClassCleanup(cls.fleet.close)
        atexit.register(cls.fleet.close)  # Also when the run is ended from outside.
        cls.fleet.start()
        cls.served, cls.expected, cls.traffic, cls.begun = {}, {}, None, []

    def setUp(self):
        """Each test goes on from the one before."""
        self.assertEqual([], self.begun, "a test before this one did not end well")
        self.begun.append(self.id())

    def ended_well(self):
        self.begun.clear()

    def wait_serving(self, seq, seconds=SWAP_SECONDS):
        self.fleet.wait_serving(seq, seconds)

    def note_fresh(self, version):
        """The servers were just booted on this version."""
        answers = self.fleet.all_answers()
        for engine, found in answers.items():
            asking.note(self.fleet.ranks_of(engine), version, found)
        return answers

    def await_answers(self, seq):
        """Until the traffic has an answer of each engine that is this version's from begin to end."""
        def judged():
            good = [a for a in fleet.read_answers(self.traffic) if a["status"] == 200]
            return {a["engine"] for a in good if a["version"] == a["version_end"] == str(seq)}

        fleet.wait_until(lambda: f"answers of v{seq}, only {judged()}", lambda: judged() == set(self.fleet.engines), SWAP_SECONDS)

    def check_committed(self, seq):
        """Each group's last swap was committed and verified in the engine; labels say so when read back."""
        for group in self.fleet.group_items().values():
            if group["lastSwap"]["outcome"] != "SWAP_OUTCOME_COMMITTED":
                self.fail(f"{group}\n{self.story()}")
            self.assertEqual("VERIFY_LEVEL_RESIDENT", group["verifyLevel"], group)
        for engine in self.fleet.get("engines"):
            self.assertEqual("open", engine["gate"], engine)
        for engine in self.fleet.engines:
            label = self.fleet.call(engine, "GET", "/weight_info")["weight_version"]
            self.assertEqual(str(seq), label, engine)
            status = self.fleet.call(engine, "GET", "/baton/guard")
            self.assertEqual(("open", seq), (status["gate"], status["version"]), engine)

    def story(self):
        """What the groups' events and the daemons' logs say, for whoever reads a failure."""
        events = [self.fleet.ctl("events", f"group/{group}") for group in RANKS_OF_GROUP]
        return "\n".join([*events, self.fleet.tails()])

    def check_all_answered(self):
        """No request of the traffic failed so far."""
        answers = fleet.read_answers(self.traffic)
        failed = [a for a in answers if a["status"] != 200]
        if failed:
            self.fail(f"{len(failed)} of {len(answers)} requests failed: {failed[:3]}\n{self.story()}")
        return answers

    def print_pauses(self):
        """One JSON object a group: where the time of its last swap went."""
        for name, group in sorted(self.fleet.group_items().items()):
            phases = {k.removesuffix("Ns"): round(int(v) / 1e6, 1) for k, v in group["lastSwap"]["phases"].items()}
            whole, engine = phases["shut"], phases.get("engine", 0)
            figure = {"name": f"vllm_pause_tp{RANKS_OF_GROUP[name]}", "value": whole, "unit": "ms",
                      "anchor": "the engine's part of the pause", "anchor_value": engine,
                      "ratio": round(whole / engine, 3) if engine else None, "target": None, "met": True,
                      "phases_ms": phases}  # fmt: skip
            print(json.dumps(figure), flush=True)

    def test_1_groups_join_on_the_first_publish(self):
        version = self.fleet.publish("v1", "--optimizer-step", 100)
        self.assertEqual(digest_of("v1"), version["digest"])
        self.wait_serving(1, BOOT_SECONDS)
        self.served["v1"] = self.note_fresh("v1")
        self.expected[1] = self.fleet.traffic_answers()
        self.ended_well()

    def test_2_publish_rolls_under_traffic(self):
        type(self).traffic = self.fleet.start_traffic(
            1800, vllm_fleet.TRAFFIC_TOKENS, patience=vllm_fleet.PATIENCE_SECONDS)  # fmt: skip
        self.await_answers(1)
        self.assertEqual(2, self.fleet.publish("v2", "--optimizer-step", 200)["seq"])
        self.wait_serving(2)
        self.assertEqual(0, self.fleet.run("wait", "m", "--for=converged", "--timeout", "240s")[0])
        self.check_committed(2)
        self.print_pauses()
        for group in RANKS_OF_GROUP:
            text = self.fleet.ctl("describe", "group", group)
            for word in ("pause", "apply", "verify", "commit", "label", "probe", "resident"):
                self.assertIn(word, text.lower())
        self.await_answers(2)
        self.check_all_answered()
        self.ended_well()

    def test_3_undo_rolls_back_under_traffic(self):
        self.assertIn("v1", self.fleet.ctl("roll", "undo", "m", "--reason", "reward collapsed"))
        self.wait_serving(1)
        self.check_committed(1)
        self.traffic.stop(vllm_fleet.PATIENCE_SECONDS + 10)
        self.check_all_answered()
        self.assertEqual(self.served["v1"], self.fleet.all_answers())
        self.ended_well()

    def test_4_engines_that_die_come_back_on_their_target(self):
        """So they are fresh servers on v2: what was swapped in before answers as they do."""
        self.fleet.ctl("resume", "model/m")
        self.fleet.ctl("roll", "start", "m", "--to", 2)
        self.wait_serving(2)
        swapped = self.fleet.all_answers()
        self.expected[2] = self.fleet.traffic_answers()
        boots = self.fleet.boot_ids()
        self.fleet.kill_engines()
        shut = lambda: not any(g.get("gateOpen") for g in self.fleet.group_items().values())
        fleet.wait_until("the groups are shut", shut, SWAP_SECONDS)
        self.wait_serving(2, BOOT_SECONDS)
        for engine, boot in self.fleet.boot_ids().items():
            self.assertNotEqual(boots[engine], boot)
        self.served["v2"] = self.note_fresh("v2")
        self.assertEqual(self.served["v2"], swapped)
        self.assertNotEqual(self.served["v2"], self.served["v1"])
        self.ended_well()

    def test_5_no_request_failed_and_none_was_mixed(self):
        """All answers of tests 2 and 3 that began and ended on one version are that version's, to the bit."""
        answers = self.check_all_answered()
        judged = {(engine, seq): 0 for engine in self.fleet.engines for seq in self.expected}
        for a in answers:
            if a["version"] == a["version_end"]:
                seq = int(a["version"])
                self.assertEqual(self.expected[seq][a["engine"], a["prompt"]], [a["text"], a["logprobs"]], a)
                judged[a["engine"], seq] += 1
        self.assertTrue(all(judged.values()), judged)
        slowest = max(a["ms"] for a in answers)
        print(f"  {len(answers)} requests, none failed, {sum(judged.values())} judged, slowest {slowest:.0f} ms", flush=True)
        self.ended_well()

    def test_6_tensors_of_a_trainer_make_a_partial_version(self):
        old, new = landings.tensors_of("v2"), landings.tensors_of("v3")
        changed = {name: t for name, t in new.items() if not t.equal(old[name])}
        publisher = baton.Publisher("m", agent=f"unix:{self.fleet.dir}/node-b.sock")
        version = publisher.publish(changed, partial=True, optimizer_step=205)
        self.assertEqual((3, digest_of("v3")), (version.seq, version.digest))
        self.assertLess(version.bytes_carried, version.bytes)
        self.wait_serving(3)
        self.check_committed(3)
        self.served["v3"] = self.fleet.all_answers()
        for engine, found in self.served["v3"].items():
            fresh = self.served["v2"][engine]
            self.assertEqual([text for text, _ in fresh], [text for text, _ in found])
            self.assertNotEqual([logprobs for _, logprobs in fresh], [logprobs for _, logprobs in found])
        self.ended_well()

    @rotation.chosen("hang")
    def test_7_a_rank_that_hangs_does_not_stop_the_others(self):
        """Its group's swap is given up in time, its old version serves again once the rank goes on, and
        the calls that it answers late do no harm."""
        self.fleet.apply_model(maxUnavailable="1", swapDeadline="5s")
        rank = self.fleet.rank_pids("g1.e0")[-1]
        os.kill(rank, signal.SIGSTOP)
        try:
            self.assertEqual(4, self.fleet.publish("v1")["seq"])
            state = lambda group: self.fleet.group_items().get(group, {})
            given_up = lambda: state("g1").get("state") == "GROUP_STATE_RESTORING"
            fleet.wait_until("g1 gives up", given_up, SWAP_SECONDS)
            self.assertFalse(state("g1").get("gateOpen"))
        finally:
            os.kill(rank, signal.SIGCONT)
        self.wait_serving(4)
        self.assertEqual(self.served["v1"], self.fleet.all_answers())
        self.assertIn("PAUSE_TIMEOUT", self.fleet.ctl("events", "group/g1"))
        self.fleet.apply_model(**self.fleet.default_update())
        self.ended_well()

    def check_engine(self, engine, landing):
        """`batonctl engine check` finds it sound, and leaves it alone: an agent has driven it."""
        place = self.fleet.engines[engine], *self.fleet.secret_files(engine)
        found, facts = checking.check(self, 0, place, "--weights", landing)
        self.assertEqual(dict.fromkeys(("guard", "token", "page", "way in", "probe", "weights"), "ok"), checking.verdicts(found))
        self.assertEqual((self.fleet.ranks_of(engine), "plug-in"), (facts["worldSize"], facts["wayIn"]))
        found, _ = checking.check(self, 7, place, "--no-weights", "--self-update", landing)
        self.assertRegex(found["self-update"]["message"], "an agent drives this engine")

    def test_9_servers_keep_the_engine_contract(self):
        """The agents have gone; their servers stay, as they must."""
        groups = self.fleet.group_items().values()
        (seq,) = {int(g["committedSeq"]) for g in groups}
        (digest,) = {g["committedDigest"] for g in groups}
        other, _ = landings.land(self.fleet.dir, "other", "v2" if digest == digest_of("v1") else "v1")
        for agent in self.fleet.agents.values():
            self.assertEqual(0, agent.stop())
        for engine in self.fleet.engines:
            with self.subTest(engine):
                page, token = self.fleet.secret_files(engine)
                servers.AgentPage(page).write(servers.SHUT, seq)
                landing = self.fleet.landing(engine, digest)
                self.check_engine(engine, landing)
                done = subprocess.run(
                    [CONFORMANCE, "--url", self.fleet.engines[engine], "--page", page, "--token", token,
                     "--landing-a", landing, "--landing-b", other],
                    capture_output=True, text=True, timeout=300, check=False)  # fmt: skip
                self.assertEqual(0, done.returncode, done.stdout + done.stderr)
                print(f"  {engine}: {done.stdout.count('ok - ')} checks of the contract hold", flush=True)
        self.ended_well()


if __name__ == "__main__":
    unittest.main()
