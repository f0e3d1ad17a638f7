#!/usr/bin/env python3
"""All groups of a model together: shut, commit, open. The controller is killed in the middle; gates are watched by their pages."""

import json
import os
import threading
import unittest

from fleet import Fleet, check_answers, read_answers, wait_until

GROUPS = {"node-a": {"g0": [1], "g1": [1, 1]}, "node-b": {"g2": [2]}}
# Engines that hang here do so until they are let go, however long a busy machine needs for that.
TIMES = {"retryFirst": "200ms", "retryMax": "1s", "opShort": "100s", "opLong": "100s", "restoreBound": "300s"}


class OneVersion(threading.Thread):
    """Reads all guard pages all the time: open gates must be open for one version only."""

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.pages = [path for agent in fleet.agents for path in (fleet.dir / agent / "engines").glob("*.page")]
        self.mixed, self.looks = [], 0
        self.stopping = threading.Event()

    @staticmethod
    def version_of(path):
        """Version that an open gate shows; None: not open."""
        try:
            page = path.read_bytes()
        except OSError:
            return None
        number = lambda at, size: int.from_bytes(page[at : at + size], "little")
        return number(40, 8) if number(16, 4) == 1 and number(32, 8) == number(128, 8) else None

    def open_versions(self):
        return {self.version_of(path) for path in self.pages} - {None}

    def run(self):
        while not self.stopping.wait(0.002):
            self.looks += 1
            versions = self.open_versions()
            if len(versions) > 1:
                self.mixed.append(versions)

    def stop(self):
        self.stopping.set()
        self.join()


class Barrier(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet(GROUPS, faults=True, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.apply()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.names = {1: "v1"}

    def apply(self, deadline="60s", **update):
        self.fleet.apply_model(strategy="Barrier", maxUnavailable="1", barrier={"deadline": deadline}, swapDeadline="90s", **update)

    def publish(self, version):
        seq = self.fleet.publish(version)["seq"]
        self.names[seq] = version
        return seq

    def watch(self):
        watch = OneVersion(self.fleet)
        self.addCleanup(watch.stop)
        watch.start()
        return watch

    def roll(self):
        """The newest roll; {} while the controller does not answer."""
        code, out, _ = self.fleet.run("get", "rolls", "-o", "json")
        return max(json.loads(out)["items"], key=lambda roll: int(roll["number"]), default={}) if code == 0 else {}

    def wait_stage(self, stage):
        wait_until(lambda: f"{stage}: {self.roll()}\n{self.fleet.tails()}", lambda: self.roll().get("barrierStage") == f"BARRIER_STAGE_{stage}", every=0.02)

    def expect(self, seq, watch, traffic):
        """All on 'seq', no gate ever open for two versions, no answer a mixture, no request failed."""
        self.fleet.wait_controller()
        self.assertEqual(0, self.fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])
        self.assertEqual({seq}, watch.open_versions(), "converged is told when every gate is open")
        self.fleet.wait_serving(seq)
        watch.stop()
        self.assertEqual([], watch.mixed[:3])
        self.assertGreater(watch.looks, 50)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200][:3], self.fleet.tails())
        self.assertGreater(check_answers(answers, self.names), 0)
        self.assertTrue(any(a["version"] == str(seq) for a in answers))

    def test_all_shut_all_commit_all_open(self):
        watch, traffic = self.watch(), self.fleet.start_traffic()
        seq = self.publish("v2")
        self.expect(seq, watch, traffic)
        reasons = [e["reason"] for e in self.fleet.events("roll/m-2")]
        self.assertEqual(["BarrierBegun", "BarrierGo", "BarrierOpen"], [r for r in reasons if r.startswith("Barrier")])
        for group in self.fleet.group_items().values():
            self.assertEqual("SWAP_OUTCOME_COMMITTED", group["lastSwap"]["outcome"])
            self.assertGreater(int(group["lastSwap"]["phases"]["barrierNs"]), 0)

    def test_controller_dies_while_they_shut(self):
        """Killed before GO was decided: all wait shut; the next life decides, and all open on the new version."""
        self.fleet.set_fault("g2.e0", kind="hang", phase="pause")
        watch, traffic = self.watch(), self.fleet.start_traffic()
        seq = self.publish("v2")
        self.wait_stage("SHUTTING")
        wait_until("two groups are shut", lambda: int(self.roll().get("groupsShut", 0)) == 2, every=0.02)
        self.fleet.controller.kill()
        self.fleet.clear_faults("g2.e0")
        threading.Event().wait(3)
        self.assertEqual(set(), watch.open_versions(), "nobody opens without a word")
        self.fleet.controller.start()
        self.expect(seq, watch, traffic)
        self.assertEqual(1, self.roll()["barrierTries"])

    def test_controller_dies_while_they_swap(self):
        """Killed between GO and OPEN, twice: those that committed stay shut until the last one has."""
        self.fleet.set_fault("g1.e1", kind="hang", phase="apply")
        watch, traffic = self.watch(), self.fleet.start_traffic()
        seq = self.publish("v2")
        self.wait_stage("GO")
        self.fleet.controller.kill()
        threading.Event().wait(1.5)
        self.assertEqual(set(), watch.open_versions())
        self.fleet.controller.start()
        self.fleet.wait_controller()
        self.fleet.controller.kill()
        self.fleet.clear_faults("g1.e1")
        threading.Event().wait(3)
        self.assertEqual(set(), watch.open_versions(), "all committed, and nobody says so")
        self.fleet.controller.start()
        self.expect(seq, watch, traffic)

    def test_too_few_in_time(self):
        """A group that cannot pause in time: all serve the old version again, and the next try goes."""
        self.apply(deadline="5s")  # In doubt is who hears nothing for twice as long: a machine that stalls is not.
        self.fleet.set_fault("g0.e0", kind="hang", phase="pause")
        watch, traffic = self.watch(), self.fleet.start_traffic()
        seq = self.publish("v2")
        wait_until("cancelled", lambda: any(e["reason"] == "BarrierCancelled" for e in self.fleet.events()), every=0.1)
        self.fleet.clear_faults("g0.e0")
        self.apply()
        self.expect(seq, watch, traffic)
        self.assertGreater(self.roll()["barrierTries"], 1)

    def test_agent_is_killed_while_its_groups_wait(self):
        """Its groups are in doubt, stay shut, and join at the new version once the others opened."""
        self.fleet.set_fault("g2.e0", kind="hang", phase="apply")
        watch, traffic = self.watch(), self.fleet.start_traffic(engines=["g2.e0"])
        seq = self.publish("v2")
        self.wait_stage("GO")
        wait_until("they committed", lambda: all(int(self.fleet.group_items()[g].get("committedSeq", 0)) == seq for g in ("g0", "g1")), every=0.02)
        self.fleet.agents["node-a"].kill()
        self.fleet.agents["node-a"].start()
        self.fleet.wait_connected()
        self.fleet.clear_faults("g2.e0")
        self.expect(seq, watch, traffic)
        self.assertEqual([2], sorted({s for _, s, o in self.fleet.outcomes("g0") if o == "OUT"}))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
