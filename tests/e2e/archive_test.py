#!/usr/bin/env python3
"""The controller's store is exported beside it, checked, and imported elsewhere: the fleet goes on, under a new generation."""

import contextlib
import json
import shutil
import sqlite3
import unittest

from fleet import Fleet, Process, check_answers, read_answers, wait_until
from several import make_etcd, serves

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s"}


def lines_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


class Archive(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet({"a": {"one": [1]}, "b": {"two": [1]}}, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.old = f"sqlite:{self.fleet.dir}/controller.db"
        self.new = f"sqlite:{self.fleet.dir}/new.db"
        self.archive = self.fleet.dir / "archive.jsonl"

    def generation_seen(self, agent):
        """The generation of the last leadership that the agent obeyed, as its journal has it."""
        code, out, _ = self.fleet.run("--agent", f"unix:{self.fleet.dir}/{agent}.sock", "status", "-o", "json", agent=agent)
        return json.loads(out.splitlines()[0])["generation"] if code == 0 and out else 0

    def stored(self):
        """What must be after the import as it was before."""
        versions = [(v["meta"]["uid"], int(v["seq"]), v["digest"], v["state"]) for v in self.fleet.get("versions")]
        rolls = [(r["meta"]["uid"], int(r["number"]), int(r["toSeq"]), r["state"]) for r in self.fleet.get("rolls")]
        items = self.fleet.group_items()
        groups = {g: (i["meta"]["uid"], int(i["committedSeq"]), int(i["lastSwap"]["ticketNumber"])) for g, i in items.items()}
        models = [(m["meta"]["uid"], int(m["status"]["promotedSeq"]), m["spec"]) for m in self.fleet.get("models")]
        return versions, rolls, groups, models

    def controller_on(self, store):
        argv = self.fleet.controller_argv()
        argv[argv.index("--store") + 1] = store
        return Process("controller", argv, self.fleet.dir / "controller.log")

    def start_on(self, store):
        self.fleet.controller = self.controller_on(store).start()
        self.fleet.wait_controller()

    def export_beside_the_controller(self):
        out = self.fleet.ctl("store", "export", self.archive, "--store", self.old)
        self.assertIn("exported, digest", out)
        self.assertEqual(0o600, self.archive.stat().st_mode & 0o777)
        lines = lines_of(self.archive)
        kinds = {line["recordKind"] for line in lines}
        self.assertLessEqual({"archive", "cluster", "model", "version", "roll", "group", "agent", "swap", "event", "end"}, kinds)
        code, out, err = self.fleet.run("store", "check", "--store", self.old)
        self.assertEqual((0, ""), (code, out), err)
        return [line["message"] for line in lines if line["recordKind"] == "event"]

    def refusals(self):
        """What an operator may do wrong; each is refused, and the running controller does not notice."""
        for words, want, says in [
            (["import", self.archive, "--store", self.old], 1, "is in use by process"),
            (["import", self.archive], 2, "--store ADDRESS"),
            (["export", "--store", self.old], 2, "takes a FILE"),
            (["check", "--store", f"sqlite:{self.fleet.dir}/none.db"], 1, "none.db"),
            (["export", self.fleet.dir / "never", "--store", f"sqlite:{self.fleet.dir}/none.db"], 1, "none.db"),
        ]:
            code, out, err = self.fleet.run("store", *words)
            self.assertEqual(want, code, out + err)
            self.assertIn(says, err)
        self.assertEqual([], list(self.fleet.dir.glob("never*")) + list(self.fleet.dir.glob("none*")))
        half = self.fleet.dir / "half"
        half.write_bytes(self.archive.read_bytes()[:-20])
        code, _, err = self.fleet.run("store", "import", half, "--store", self.new)
        self.assertEqual(1, code)
        self.assertIn(f"line {len(lines_of(self.archive))}: the file is cut off in it", err)
        self.assertEqual([], list(self.fleet.dir.glob("new.db")))

    def check_moved(self, before, messages, generation):
        """On the new store all is as before; agents have obeyed its generation; the fleet rolls on."""
        fleet = self.fleet
        wait_until("agents see the generation", lambda: all(self.generation_seen(a) >= generation for a in fleet.agents))
        wait_until(lambda: f"floors are known\n{fleet.tails()}", lambda: any(e["reason"] == "StoreFloorsKnown" for e in fleet.events()))
        self.assertEqual(before, self.stored())
        after = {event["message"] for event in fleet.events()}
        self.assertLessEqual(set(messages), after)
        self.assertEqual(3, fleet.publish("v3")["seq"])
        fleet.wait_serving(3)
        for group, item in fleet.group_items().items():
            self.assertGreater(int(item["lastSwap"]["ticketNumber"]), before[2][group][2])

    def check_old_store_is_over(self, generation):
        """The store of before, started once more, learns from the agents that it went back, and issues nothing as who it was."""
        self.assertEqual(0, self.fleet.controller.stop())
        self.start_on(self.old)
        went_back = lambda: [e for e in self.fleet.events() if e["reason"] == "StoreWentBack"]
        events = wait_until(lambda: f"it went back\n{self.fleet.tails()}", went_back)
        self.assertIn(f"epoch {generation}/", events[0]["message"])
        wait_until("agents see another one", lambda: all(self.generation_seen(a) > generation for a in self.fleet.agents))

    def test_moved_to_another_store(self):
        fleet = self.fleet
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        fleet.publish("v2")
        fleet.wait_serving(2)
        fleet.wait_roll(2)
        messages = self.export_beside_the_controller()
        self.refusals()
        before = self.stored()
        seen = self.generation_seen("a")
        traffic = fleet.start_traffic()
        self.assertEqual(0, fleet.controller.stop())
        out = fleet.ctl("store", "import", self.archive, "--store", self.new)
        generation = int(out.rsplit(" is ", 1)[1].split()[0])
        self.assertGreater(generation, seen)
        fleet.ctl("store", "check", "--store", self.new)
        code, _, err = fleet.run("store", "import", self.archive, "--store", self.new)
        self.assertEqual(1, code)
        self.assertIn("it is not empty", err)
        self.start_on(self.new)
        self.check_moved(before, messages, generation)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {2: "v2", 3: "v3"})
        self.check_old_store_is_over(generation)

    def test_a_half_is_no_whole(self):
        """A store whose import was cut off: the controller does not serve on it, check says so, the same archive finishes it."""
        fleet = self.fleet
        fleet.controller.start()
        fleet.wait_controller()
        fleet.apply_model(**fleet.default_update())
        self.assertEqual(0, fleet.controller.stop())
        fleet.ctl("store", "export", self.archive, "--store", self.old)
        fleet.ctl("store", "import", "-", "--store", self.new, given=self.archive.read_text())
        self.cut_off(self.fleet.dir / "new.db", lines_of(self.archive)[-1]["digest"])
        code, out, _ = fleet.run("store", "check", "--store", self.new)
        self.assertEqual(7, code)
        self.assertIn("cluster/cluster: importing: the import of archive", out)
        fleet.controller = self.controller_on(self.new).start()
        wait_until(lambda: f"it is told\n{fleet.tails()}", lambda: "was cut off" in fleet.run("get", "models")[2])
        self.assertEqual(1, fleet.run("get", "models")[0])
        fleet.controller.kill()
        fleet.ctl("store", "import", self.archive, "--store", self.new)
        fleet.ctl("store", "check", "--store", self.new)
        self.start_on(self.new)
        self.assertEqual(1, len(fleet.get("models")))

    @staticmethod
    def cut_off(path, digest):
        """As kill -9 before the last transaction leaves it (tests/conformance/archive_conformance.c kills for real)."""
        with contextlib.closing(sqlite3.connect(path)) as db, db:
            body = json.loads(db.execute("SELECT body FROM records WHERE kind = 'cluster'").fetchone()[0])
            db.execute("UPDATE records SET body = ? WHERE kind = 'cluster'", [json.dumps(body | {"importing": digest})])


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class Moved(unittest.TestCase):
    """From SQLite to etcd and back, each time with a swap under way."""

    def setUp(self):
        self.fleet = Fleet({"a": {"one": [1]}, "b": {"two": [1]}}, faults=True, times=TIMES)
        self.fleet.default_update = lambda: {"maxUnavailable": "1", "swapDeadline": "180s"}
        self.addCleanup(self.fleet.close)
        self.etcd, port = make_etcd(self.fleet.dir, self.fleet.shm)
        self.addCleanup(self.etcd.kill)
        self.etcd.start()
        wait_until("etcd serves", lambda: serves(port))
        self.stores = [f"sqlite:{self.fleet.dir}/controller.db", f"etcd:http://127.0.0.1:{port}/moved", f"sqlite:{self.fleet.dir}/back.db"]

    def started(self, controller):
        """(generation, epoch) of the last core that it started."""
        line = [line for line in controller.log.read_text().splitlines() if "core started" in line][-1]
        return tuple(int(word) for word in line.split() if word.isdigit())[:2]

    def controller_on(self, store):
        argv = self.fleet.controller_argv()
        argv[argv.index("--store") + 1] = store
        self.fleet.controller = Process("controller", argv, self.fleet.dir / "controller.log").start()
        self.fleet.wait_controller()
        return self.started(self.fleet.controller)[0]

    def local(self, group):
        """What the agent of a group says of it."""
        agent = next(name for name, groups in self.fleet.groups.items() if group in groups)
        code, out, _ = self.fleet.run("--agent", f"unix:{self.fleet.dir}/{agent}.sock", "status", "-o", "json", agent=agent)
        return json.loads(out.splitlines()[1]) if code == 0 else {"state": "", "ticketUid": ""}

    def swapping(self):
        """The group whose swap hangs."""
        groups = [g for g in ("one", "two") if self.local(g)["state"] == "APPLYING"]
        return groups[0] if groups else None

    def hang(self):
        """Until heal()."""
        for engine in ("one.e0", "two.e0"):
            self.fleet.set_fault(engine, kind="hang", phase="apply")

    def wait_swapping(self):
        return wait_until(lambda: f"a group applies\n{self.fleet.tails()}", self.swapping)

    def wait_floors(self):
        wait_until(lambda: f"floors are known\n{self.fleet.tails()}", lambda: any(e["reason"] == "StoreFloorsKnown" for e in self.fleet.events()))

    def check_floors_first(self, archive):
        """Since the import no ticket was issued before all agents had told what they had seen."""
        before = sum(line["recordKind"] == "event" for line in lines_of(archive))
        reasons = [e["reason"] for e in self.fleet.events()][before:]
        issued = [i for i, reason in enumerate(reasons) if reason.endswith("TicketIssued")]
        self.assertTrue(issued, reasons)
        self.assertLess(reasons.index("StoreFloorsKnown"), issued[0], reasons)

    def heal(self):
        for engine in ("one.e0", "two.e0"):
            self.fleet.clear_faults(engine)

    def move(self, archive, to):
        """The controller is killed, the archive goes into another store; its generation there."""
        self.fleet.controller.kill()
        self.fleet.ctl("store", "import", archive, "--store", to)
        self.fleet.ctl("store", "check", "--store", to)
        return self.controller_on(to)

    def check_serving(self, seq, version, tickets):
        """All serve it, each by a ticket above all before, and the next publish has the next seq."""
        self.fleet.wait_serving(seq)
        items = self.fleet.group_items()
        for group, item in items.items():
            self.assertGreater(int(item["lastSwap"]["ticketNumber"]), tickets[group], f"{group}: {version}")
        return {group: int(item["lastSwap"]["ticketNumber"]) for group, item in items.items()}

    def test_to_etcd_and_back_with_tickets_in_flight(self):
        """A ticket that the archive knows ends as itself under the new generation; one that it does not know is fenced, and its number is not
        given again."""
        fleet = self.fleet
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        tickets = {g: int(item["lastSwap"]["ticketNumber"]) for g, item in fleet.group_items().items()}
        first = self.started(fleet.controller)[0]
        traffic = fleet.start_traffic()
        # The archive is made while the ticket is open.
        self.hang()
        fleet.publish("v2")
        group = self.wait_swapping()
        uid = self.local(group)["ticketUid"]
        archive = fleet.dir / "open.jsonl"
        fleet.ctl("store", "export", archive, "--store", self.stores[0])
        self.assertIn(uid, archive.read_text(), "the archive does not know the open ticket")
        second = self.move(archive, self.stores[1])
        self.assertGreater(second, first)
        self.wait_floors()
        self.heal()
        tickets = self.check_serving(2, "v2", tickets)
        self.check_floors_first(archive)
        ends = [e["message"] for e in fleet.events(f"group/{group}") if e["reason"] == "SwapEnded"]
        self.assertTrue(any("to version 2: COMMITTED" in message for message in ends), ends)
        # The archive is made before the ticket: the restored store has never heard of it.
        fleet.ctl("hold", "model/m", "--reason", "until the backup is made")
        third = fleet.publish("v3")["seq"]
        archive = fleet.dir / "before.jsonl"
        fleet.ctl("store", "export", archive, "--store", self.stores[1])
        self.hang()
        fleet.ctl("resume", "model/m", "--reason", "go")
        group = self.wait_swapping()
        unknown = self.local(group)
        self.assertNotIn(unknown["ticketUid"], archive.read_text())
        self.assertGreater(self.move(archive, self.stores[2]), second)
        self.wait_floors()
        self.heal()
        wait_until(lambda: f"its swap has ended: {self.local(group)}", lambda: not self.local(group)["ticketUid"])
        fleet.ctl("resume", "model/m", "--reason", "the backup is restored")
        fleet.wait_serving(third)
        self.check_floors_first(archive)
        fourth = fleet.publish("v2")["seq"]
        self.assertEqual(third + 1, fourth)
        after = self.check_serving(fourth, "v2 again", tickets)
        self.assertGreater(after[group], unknown["highestTicket"])
        traffic.stop(70)
        check_answers(read_answers(traffic), {1: "v1", 2: "v2", 3: "v3", 4: "v2"})
        self.assertEqual(0, fleet.run("store", "check", "--store", self.stores[2])[0])


if __name__ == "__main__":
    unittest.main()
