#!/usr/bin/env python3
"""A fleet of the previous release becomes one of this release, part by part, under requests; and goes back. suite.sh builds the previous one."""

import itertools
import json
import os
import pathlib
import shutil
import unittest

import fleet as rig
from fleet import Fleet, check_answers, read_answers, wait_until
from several import Several

PREVIOUS = pathlib.Path(os.environ.get("BATON_UPGRADE_PREVIOUS", "/nonexistent"))
OLD, NEW = "old", "new"
TIMES = {"retryFirst": "100ms", "retryMax": "1s"}


class Mixed:
    """Of a fleet of two releases: 'release' is of what is made, started or asked next."""

    release = OLD

    def program(self, name):
        return str(PREVIOUS / name) if self.release == OLD else rig.program(name)

    def use(self, process, release):
        process.argv[0] = str(PREVIOUS / pathlib.Path(process.argv[0]).name) if release == OLD else rig.program(pathlib.Path(process.argv[0]).name)

    def replace(self, process, release):
        """As a supervisor does it: told to stop, the other release started with the same files."""
        assert process.stop(60) == 0, process.tail()
        self.use(process, release)
        process.start()

    def replace_agent(self, name, release):
        self.replace(self.agents[name], release)
        self.wait_listening(name)

    def running(self):
        """{name: release} of the daemons, as the kernel has it."""
        found = {}
        for process in [*getattr(self, "controllers", [self.controller]), *self.agents.values()]:
            if process.is_alive():
                found[process.name] = OLD if os.path.realpath(f"/proc/{process.popen.pid}/exe").startswith(os.path.realpath(PREVIOUS) + "/") else NEW
        return found


class One(Mixed, Fleet):
    """One controller, on SQLite."""


class Three(Mixed, Several):
    """Three controllers over an etcd."""


class Upgrade(unittest.TestCase):
    """What both fleets are asked."""

    def begin(self, fleet):
        self.fleet, self.names, self.versions = fleet, {}, itertools.cycle(("v1", "v2", "v3"))
        self.addCleanup(fleet.close)

    def publish(self):
        """Not waited for: what is done next is done while it rolls."""
        version = next(self.versions)
        seq = self.fleet.publish(version)["seq"]
        self.names[seq] = version
        return seq

    def roll(self):
        seq = self.publish()
        self.fleet.wait_serving(seq)
        self.fleet.wait_roll(seq)
        self.fleet.wait_labels(seq)

    def finish(self, traffic):
        """Nobody's request failed, each answer was of one version, no swap failed; an agent that was told to stop may have refused a ticket."""
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        self.assertGreater(check_answers(answers, self.names), 50)
        for group in self.fleet.group_items():
            outcomes = self.fleet.outcomes(group)
            self.assertLessEqual({how for _, _, how in outcomes}, {"COMMITTED", "REFUSED"}, group)
            numbers = [number for number, _, _ in outcomes]
            self.assertEqual(sorted(set(numbers)), numbers, outcomes)
            committed = [seq for _, seq, how in outcomes if how == "COMMITTED"]
            self.assertEqual(sorted(set(committed)), committed, outcomes)


class OneController(Upgrade):
    GROUPS = {"a": {"one": [1], "pair": [1]}, "b": {"two": [2], "pair": [1]}}

    def kept(self):
        """What both releases must read from the store alike, and no roll that goes on meanwhile changes."""
        of = lambda item, *names: (item["meta"]["uid"], *(item[name] for name in names))
        models = [(*of(m), m["spec"]["update"]["trigger"], m["spec"]["update"]["maxUnavailable"]) for m in self.fleet.get("models")]
        return models, [of(v, "seq", "digest", "state") for v in self.fleet.get("versions")], [of(r, "toSeq") for r in self.fleet.get("rolls")]

    def replace_controller(self, release):
        """Each release shows what the other one stored."""
        before = self.kept()
        self.fleet.replace(self.fleet.controller, release)
        self.fleet.wait_controller()
        self.assertEqual(before, self.kept())

    def import_archive(self, path):
        """An archive of the previous release, in a store of this one: whole, and with the same records."""
        fleet, store = self.fleet, f"sqlite:{self.fleet.dir}/imported.db"
        fleet.ctl("store", "import", path, "--store", store)
        self.assertEqual("", fleet.run("store", "check", "--store", store)[1])
        fleet.ctl("store", "export", fleet.dir / "again.jsonl", "--store", store)
        of = lambda file: [r for r in map(json.loads, file.read_text().splitlines()) if r["recordKind"] in ("model", "version", "roll", "swap")]
        self.assertTrue(of(path))
        self.assertEqual([self.told_by(r) for r in of(path)], [self.told_by(r) for r in of(fleet.dir / "again.jsonl")])

    @staticmethod
    def told_by(record):
        """A later release may store more of a record than the earlier one knew."""
        return record["recordKind"], record.get("uid") or record.get("ticketUid"), record.get("seq"), record.get("digest"), record.get("state")

    def test_up_and_back(self):
        self.begin(One(self.GROUPS, times=TIMES))
        fleet = self.fleet
        fleet.start()
        self.roll()
        traffic = fleet.start_traffic()
        self.roll()
        archive = fleet.dir / "archive.jsonl"
        fleet.ctl("store", "export", archive, "--store", f"sqlite:{fleet.dir}/controller.db")
        with self.subTest("the controller first: it reads the store, and old agents obey it"):
            self.publish()
            self.replace_controller(NEW)
            self.roll()  # batonctl is old as well.
            fleet.release = NEW
            self.assertEqual("", fleet.run("store", "check", "--store", f"sqlite:{fleet.dir}/controller.db")[1])
            self.import_archive(archive)
            self.assertEqual({"controller": NEW, "a": OLD, "b": OLD}, fleet.running())
        with self.subTest("the agents, one by one, while it rolls; the pair's leader is new, its other member old"):
            self.publish()
            fleet.replace_agent("a", NEW)
            self.roll()
            self.assertEqual({"controller": NEW, "a": NEW, "b": OLD}, fleet.running())
            self.publish()
            fleet.replace_agent("b", NEW)
            self.roll()
        with self.subTest("back: an old controller on the store that the new one wrote, with new agents"):
            self.publish()
            self.replace_controller(OLD)
            self.roll()
        with self.subTest("back: an old agent reads the journal that the new one wrote, and leads a new member"):
            fleet.replace_agent("a", OLD)
            self.roll()
            self.assertEqual({"controller": OLD, "a": OLD, "b": NEW}, fleet.running())
        self.finish(traffic)

    def interrupt(self, fleet, before, after):
        """An agent is killed in a swap; the other release reads its journal and ends the swap."""
        fleet.use(fleet.agents["a"], before)
        fleet.agents["a"].start()
        fleet.wait_listening("a")
        self.roll()
        fleet.set_fault("one.e0", phase="apply", kind="hang")
        seq = self.publish()
        wait_until(lambda: f"one applies\n{fleet.tails()}", lambda: fleet.group_items()["one"]["state"] == "GROUP_STATE_APPLYING")
        fleet.agents["a"].kill()
        fleet.clear_faults("one.e0")
        fleet.use(fleet.agents["a"], after)
        fleet.agents["a"].start()
        fleet.wait_serving(seq)
        ticket = next(number for number, to, _ in fleet.outcomes("one") if to == seq)
        self.assertEqual(1, sum(number == ticket for number, _, _ in fleet.outcomes("one")), fleet.outcomes("one"))
        self.assertEqual(0, fleet.agents["a"].stop(60))

    def test_a_journal_with_a_swap_under_way(self):
        self.begin(One({"a": {"one": [1]}}, faults=True, times=TIMES | {"recreateAfter": "1s"}))
        fleet = self.fleet
        fleet.use(fleet.controller, NEW)
        fleet.release = NEW
        fleet.start()
        self.assertEqual(0, fleet.agents["a"].stop(60))
        for before, after in ((OLD, NEW), (NEW, OLD)):
            with self.subTest(f"{before} to {after}"):
                self.interrupt(fleet, before, after)


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class ThreeControllers(Upgrade):
    def alone(self, release):
        """One controller of this release leads, on what any other one stored; the others come back as they were."""
        fleet = self.fleet
        for controller in fleet.controllers:
            self.assertEqual(0, controller.stop(60), controller.tail())
        fleet.use(fleet.controllers[0], release)
        fleet.controllers[0].start()
        self.assertIs(fleet.controllers[0], fleet.wait_leader())
        for controller in fleet.controllers[1:]:
            controller.start()

    def test_standbys_first_the_leader_last(self):
        self.begin(Three({"a": {"one": [1]}, "b": {"two": [1]}}, times=TIMES))
        fleet = self.fleet
        fleet.start_all()
        self.roll()
        traffic = fleet.start_traffic()
        leader = fleet.wait_leader()
        self.publish()
        for controller in (c for c in fleet.controllers if c is not leader):
            fleet.replace(controller, NEW)
        self.assertIs(leader, fleet.wait_leader())
        self.roll()
        self.publish()
        fleet.replace(leader, NEW)  # It hands over to a new one; on a slow machine that may be itself, started again.
        fleet.wait_leader()
        self.roll()
        self.assertEqual({NEW}, {r for name, r in fleet.running().items() if name.startswith("controller")})
        for agent in fleet.agents:
            self.publish()
            fleet.release = NEW
            fleet.replace_agent(agent, NEW)
            self.roll()
        with self.subTest("back: an old one leads new standbys and new agents"):
            self.publish()
            self.alone(OLD)
            self.roll()
            self.assertEqual({"controller0": OLD, "controller1": NEW, "controller2": NEW, "a": NEW, "b": NEW}, fleet.running())
        self.finish(traffic)
        epochs = fleet.epochs()
        self.assertEqual(sorted(set(epochs)), epochs)


if __name__ == "__main__":
    unittest.main()
