#!/usr/bin/env python3
"""Groups whose engines several agents drive: they roll, are killed at any time, and are old or new on all."""

import random
import shutil
import sys
import time
import unittest

import fleet as rig
from fleet import SEED, Fleet, check_answers, read_answers, wait_until

sys.path.insert(0, str(rig.ROOT / "tests/conformance"))
try:
    import grpc
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    grpc = None

GROUPS = {"node-a": {"g0": [1]}, "node-b": {"g0": [1]}}
TIMES = {"recreateAfter": "2s", "engineLost": "3s"}


class Members(unittest.TestCase):
    """Two agents, one group; the first one leads."""

    def setUp(self):
        self.fleet = Fleet(GROUPS, faults=True, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.names = {1: "v1"}

    def publish(self):
        version = "v2" if len(self.names) % 2 else "v1"
        seq = self.fleet.publish(version)["seq"]
        self.names[seq] = version
        return seq

    def check_traffic(self, traffic, failures=0):
        """Every answer is wholly of one version; requests may fail while an agent or an engine is away."""
        traffic.stop(70)
        answers = read_answers(traffic)
        failed = [a for a in answers if a["status"] != 200]
        self.assertLessEqual(len(failed), failures, f"{len(failed)} of {len(answers)} requests failed: {failed[:3]}")
        return check_answers([a for a in answers if a["status"] == 200], self.names)

    def test_it_rolls_without_a_failed_request(self):
        traffic = self.fleet.start_traffic()
        seq = self.publish()
        self.fleet.wait_serving(seq)
        self.assertGreater(self.check_traffic(traffic), 10)
        engines = {e["name"]: e for e in self.fleet.get("engines")}
        self.assertEqual({"e0": "node-a", "e1": "node-b"}, {n: e["agent"] for n, e in engines.items()})
        self.fleet.wait_labels(seq)
        group = self.fleet.group_items()["g0"]
        self.assertEqual("SWAP_OUTCOME_COMMITTED", group["lastSwap"]["outcome"])
        self.assertEqual("VERIFY_LEVEL_RESIDENT", group["verifyLevel"])
        self.assertEqual("node-a", group["agent"])

    def kill_at_random(self, name, seconds, rng):
        """kill -9 of one agent somewhere in a roll; then all is well again by itself."""
        seq = self.publish()
        agent = self.fleet.agents[name]
        time.sleep(rng.uniform(0, seconds))
        agent.kill()
        time.sleep(rng.uniform(0, 1.5))
        agent.start()
        self.fleet.wait_connected()  # What its earlier life said may still be shown before.
        self.fleet.wait_serving(seq, seconds=90)
        self.fleet.wait_labels(seq)

    def test_kills_of_leader_and_follower(self):
        """A few instants of each; every answer of the whole time is of one version."""
        rng = random.Random(SEED)
        traffic = self.fleet.start_traffic()
        for turn in range(6):
            self.kill_at_random("node-a" if turn % 2 else "node-b", 1.2, rng)
        self.assertGreater(self.check_traffic(traffic, failures=10**6), 10)

    def test_a_follower_that_stays_away_takes_the_group_out(self):
        self.fleet.agents["node-b"].kill()
        wait_until(lambda: f"g0 is OUT\n{self.fleet.tails()}", lambda: self.fleet.group_items()["g0"]["state"] == "GROUP_STATE_OUT")
        said = self.fleet.ctl("describe", "group", "g0")
        self.assertIn("member node-b", said)
        self.fleet.agents["node-b"].start()
        self.fleet.wait_serving(1)

    def test_the_leaders_disk_is_lost(self):
        """Both agents die in a swap, and the leader's journal is gone: the members are asked, and the group comes back by itself."""
        self.fleet.set_fault("g0.e0", kind="hang", phase="apply")
        seq = self.publish()
        wait_until("a swap begins", lambda: self.fleet.group_items()["g0"]["state"] == "GROUP_STATE_APPLYING")
        for name in GROUPS:
            self.fleet.agents[name].kill()
        self.fleet.clear_faults("g0.e0")
        for path in (self.fleet.dir / "node-a").glob("journal*"):
            path.unlink() if path.is_file() else shutil.rmtree(path)
        for name in GROUPS:
            self.fleet.agents[name].start()
        self.fleet.wait_serving(seq, seconds=120)
        self.fleet.wait_labels(seq)
        reasons = {e["reason"] for e in self.fleet.events("group/g0")}
        self.assertIn("ResolvingTicketIssued", reasons)


class Mismatch(unittest.TestCase):
    """Files that do not fit together are refused by name."""

    def test_another_leader(self):
        fleet = Fleet(GROUPS)
        self.addCleanup(fleet.close)
        path = fleet.dir / "node-b.yaml"
        path.write_text(path.read_text().replace('"leader": "node-a"', '"leader": "node-x"'))
        fleet.start()
        fleet.publish("v1")

        def says():
            return "agent node-b has agent node-x as leader of group g0, not node-a" in fleet.run("describe", "group", "g0")[1]

        wait_until(lambda: f"the mismatch is named\n{fleet.ctl('describe', 'group', 'g0')}\n{fleet.tails()}", says)


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Wire(unittest.TestCase):
    """A foreign client that speaks SwapPeer to a follower."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(GROUPS)
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)
        cls.server = Reflected(cls.fleet.listens["node-b"])
        cls.link, cls.request, _ = cls.server.method("baton.v1.SwapPeer/Link")

    def answer(self, **command):
        """The follower's first answer to one command."""
        fence = {"epoch": {"generation": 1, "n": 1}, "owner_term": 1, "ticket_number": 1, "step": 1 << 60}
        whole = {"leader": "node-a", "group": "g0", "model": "m", "fence": fence, "timeout_ms": 1000, **command}
        return next(iter(self.link(iter([self.request(command=whole)]), timeout=TIMEOUT_S))).result

    def test_only_swap_peer_is_served(self):
        names = [s for s in self.server.services() if s.startswith("baton.")]
        self.assertEqual(["baton.v1.SwapPeer"], names)

    def test_strangers_are_refused_by_name(self):
        for said, command in (
            ("agent node-b has no group g9", {"group": "g9"}),
            ("agent node-b has agent node-a as leader of group g0, not node-x", {"leader": "node-x"}),
            ("agent node-b has model m for group g0, not other", {"leader": "node-a", "model": "other"}),
        ):
            with self.subTest(said):
                got = self.answer(shut_gate={}, **command)
                self.assertIn(said, got.message)
                self.assertFalse(got.ok or got.state.known)
        self.fleet.wait_serving(1)  # Nobody's gate was shut by a stranger; the leader's link is dialled again.

    def test_what_is_no_command_ends_the_stream(self):
        for field, command in (("fence.step", {"fence": {}}), ("leader", {"leader": ""})):
            with self.subTest(field), self.assertRaises(grpc.RpcError) as caught:
                self.answer(shut_gate={}, **command)
            self.assertEqual(grpc.StatusCode.INVALID_ARGUMENT, caught.exception.code())
            self.assertIn(f"{field}: is missing", caught.exception.details())


if __name__ == "__main__":
    unittest.main()
