#!/usr/bin/env python3
"""Three controllers, of which one leads: it is killed in a roll, told to stop, stands still, loses etcd; standbys send callers to it."""

import json
import os
import re
import shutil
import signal
import sys
import unittest
import urllib.error

import fleet as rig
from fleet import Process, check_answers, free_ports, read_answers, wait_until
from several import LEADS_NO_LONGER, Several
from tls_test import certify, make_authority

sys.path.insert(0, str(rig.ROOT / "tests/conformance"))
try:
    import grpc
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    Reflected = None
SERVING, NOT_SERVING = 1, 2
OUT_OF_REACH, REACHED = "store: the store is out of reach", "store: the store is reached"
STORED = (("x-baton-read", "stored"),)


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class Leadership(unittest.TestCase):
    def setUp(self):
        self.fleet = Several({"a": {"one": [1], "two": [1]}, "b": {"three": [1]}}, times={"retryFirst": "100ms", "retryMax": "1s"})
        self.addCleanup(self.fleet.close)
        self.fleet.start_all()

    def check_epochs(self, leaderships):
        """Each leadership had an epoch of its own, above all before it."""
        epochs = self.fleet.epochs()
        self.assertGreaterEqual(len(epochs), leaderships)
        self.assertEqual(sorted(set(epochs)), epochs)

    def check_outcomes(self, *seqs):
        """Each group was swapped once to each version, and no swap failed; a ticket of a leadership that has ended is refused, and comes again."""
        for group in ("one", "two", "three"):
            outcomes = [(seq, how) for _, seq, how in self.fleet.outcomes(group) if seq in seqs and how != "REFUSED"]
            self.assertEqual([(s, "COMMITTED") for s in seqs], outcomes, group)

    def test_leaders_are_killed_and_stopped_in_rolls(self):
        fleet = self.fleet
        fleet.publish("v1")
        fleet.wait_serving(1)
        traffic = fleet.start_traffic()
        fleet.publish("v2")
        killed = fleet.wait_leader()
        killed.kill()
        fleet.wait_leader(but=killed)
        fleet.wait_serving(2)
        killed.start()  # It comes back as one that stands by, and refuses nobody.
        wait_until(lambda: f"it sees who leads\n{killed.tail()}", lambda: any("another controller leads" in x for x in fleet.lines_of(killed)))
        fleet.publish("v3")
        stopped = fleet.wait_leader()
        self.assertEqual(0, stopped.stop(), stopped.tail())
        self.assertTrue(any(LEADS_NO_LONGER in line for line in fleet.lines_of(stopped)), stopped.tail())
        fleet.wait_leader(but=stopped)
        fleet.wait_serving(3)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1", 2: "v2", 3: "v3"})
        self.check_outcomes(2, 3)
        self.check_epochs(3)

    def test_a_leader_stands_still(self):
        """When it wakes it finds that another one leads, does not fight, and stands by."""
        fleet = self.fleet
        fleet.publish("v1")
        fleet.wait_serving(1)
        frozen = fleet.wait_leader()
        os.kill(frozen.popen.pid, signal.SIGSTOP)
        try:
            fleet.wait_leader(but=frozen)
        finally:
            os.kill(frozen.popen.pid, signal.SIGCONT)
        wait_until(lambda: f"the former leader steps down\n{frozen.tail()}", lambda: not fleet.leads(frozen))
        fleet.publish("v2")
        fleet.wait_serving(2)
        self.assertTrue(frozen.is_alive(), frozen.tail())
        self.check_outcomes(2)
        self.check_epochs(2)

    def test_standbys_send_callers_to_the_leader(self):
        fleet = self.fleet
        leader = fleet.wait_leader()
        standby = next(a for c, a in zip(fleet.controllers, fleet.addresses) if c is not leader)
        nobody = f"127.0.0.1:{free_ports(1)[0]}"
        for server in (standby, f"{nobody},{standby}"):
            code, out, err = fleet.run("--server", server, "get", "models", "-o", "name")
            self.assertEqual((0, "model/m"), (code, out.strip()), err)
            code, out, err = fleet.run("--server", server, "events", "model/m")
            self.assertEqual(0, code, err)
            self.assertIn("ModelCreated", out)
        code, _, err = fleet.run("--server", standby, "hold", "model/m", "--reason", "through a standby")
        audit = fleet.dir / f"controller{fleet.addresses.index(standby)}.audit.jsonl"
        refused = [json.loads(line) for line in audit.read_text().splitlines()]
        found = [e for e in refused if (e["method"], e["outcome"]) == ("baton.v1.Models/Hold", "UNAVAILABLE")]
        self.assertTrue(found, refused)
        self.assertIn("this controller stands by", found[-1]["message"])
        self.assertEqual(0, code, err)
        self.assertTrue(any(e["reason"] == "ModelHeld" for e in fleet.events("model/m")), fleet.events("model/m"))

    def test_a_controller_that_does_not_take_part_is_driven_out(self):
        """One without --advertise takes the store over; the leader steps down at its next write, leads again, and that one ends."""
        fleet = self.fleet
        fleet.wait_leader()
        address = f"127.0.0.1:{free_ports(1)[0]}"
        argv = fleet.argv_of(0)
        del argv[argv.index("--advertise") : argv.index("--advertise") + 2]
        argv[argv.index("--listen") + 1] = address
        stray = Process("stray", argv, fleet.dir / "stray.log")
        self.addCleanup(stray.kill)
        stray.start()
        wait_until(lambda: f"it took the store\n{stray.tail()}", lambda: "core started" in stray.tail())
        wait_until(lambda: f"the leader leads again\n{fleet.tails()}", lambda: fleet.run("hold", "model/m", "--reason", "still here")[0] == 0)
        code, out, err = fleet.run("--server", address, "hold", "model/m", "--reason", "too late")
        self.assertNotEqual(0, code, out + err)
        wait_until(lambda: f"it ended\n{stray.tail()}", lambda: not stray.is_alive())
        self.assertEqual(3, stray.popen.returncode, stray.tail())
        self.assertTrue(all(c.is_alive() for c in fleet.controllers), fleet.tails())
        self.check_epochs(2)

    def test_etcd_is_away(self):
        """Nobody leads without it, groups serve on; when it is back one leads, and rolls go on."""
        fleet = self.fleet
        fleet.publish("v1")
        fleet.wait_serving(1)
        leader = fleet.wait_leader()
        traffic = fleet.start_traffic()
        fleet.etcd.kill()
        wait_until(lambda: f"it leads no longer\n{leader.tail()}", lambda: not fleet.leads(leader))
        code, out, err = fleet.run("get", "models")
        self.assertEqual(4, code, out + err)
        self.assertIn("NOT_LEADER", err)
        fleet.etcd.start()
        wait_until(lambda: f"one leads again\n{fleet.tails()}", lambda: fleet.run("get", "models")[0] == 0)
        fleet.publish("v2")
        fleet.wait_serving(2)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1", 2: "v2"})
        self.check_epochs(2)

    @unittest.skipIf(Reflected is None, "python3-grpcio is not installed")
    def test_health_says_who_leads(self):
        """All are well; of the services only the leader says that it serves them."""
        fleet = self.fleet
        fleet.wait_leader()
        checks = {c: Reflected(a).method("grpc.health.v1.Health/Check") for c, a in zip(fleet.controllers, fleet.addresses)}

        def health(controller, service):
            check, request, _ = checks[controller]
            return check(request(service=service), timeout=TIMEOUT_S).status

        for controller in fleet.controllers:
            wait_until(lambda c=controller: f"{c.name} is well\n{c.tail()}", lambda c=controller: health(c, "") == SERVING)
            wait_until(
                lambda c=controller: f"{c.name} serves if it leads\n{fleet.tails()}",
                lambda c=controller: health(c, "baton.v1.Fleet") == (SERVING if fleet.leader() is c else NOT_SERVING),
            )


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class WithoutEtcd(unittest.TestCase):
    """Controllers that start while etcd is out of reach wait for it, and stand by; what no waiting mends ends them."""

    def make(self, **options):
        self.fleet = Several({"a": {"one": [1]}}, times={"retryFirst": "100ms", "retryMax": "1s"}, **options)
        self.addCleanup(self.fleet.close)
        return self.fleet

    def said(self, controller, words):
        return len([line for line in self.fleet.lines_of(controller) if words in line])

    def start(self, controller):
        """It listens, waits for the store, and says so once."""
        controller.start()
        wait_until(lambda: f"it listens\n{controller.tail()}", lambda: self.said(controller, "controller: listening"))
        self.assertEqual((1, 0), (self.said(controller, OUT_OF_REACH), self.said(controller, REACHED)), controller.tail())

    def wait_ended(self, controller, words):
        wait_until(lambda: f"it ends\n{controller.tail()}", lambda: not controller.is_alive())
        self.assertEqual(1, controller.popen.returncode, controller.tail())
        self.assertIn(words, "\n".join(self.fleet.lines_of(controller)))

    @unittest.skipIf(Reflected is None, "python3-grpcio is not installed")
    def test_etcd_comes_later(self):
        fleet = self.make()
        for controller in fleet.controllers:
            self.start(controller)
        for address in fleet.addresses:
            check, request, _ = Reflected(address).method("grpc.health.v1.Health/Check")
            health = lambda service: check(request(service=service), timeout=TIMEOUT_S).status
            wait_until(lambda: f"it is well\n{fleet.tails()}", lambda: health("") == SERVING)
            self.assertEqual(NOT_SERVING, health("baton.v1.Fleet"))
            read, request, _ = Reflected(address).method("baton.v1.Models/List")
            for metadata in ((), STORED):
                with self.assertRaises(grpc.RpcError) as caught:
                    read(request(), timeout=TIMEOUT_S, metadata=metadata)
                self.assertEqual(grpc.StatusCode.UNAVAILABLE, caught.exception.code())
                self.assertIn("the store is out of reach", caught.exception.details())
        code, _, err = fleet.run("get", "models", "--timeout", "5s")
        self.assertEqual(4, code, err)
        self.assertIn("NOT_LEADER", err)
        fleet.start_all(started=fleet.controllers)
        fleet.publish("v1")
        fleet.wait_serving(1)
        for controller in fleet.controllers:
            wait_until(lambda c=controller: f"it reached the store\n{c.tail()}", lambda c=controller: self.said(c, REACHED))
            self.assertEqual((1, 1), (self.said(controller, OUT_OF_REACH), self.said(controller, REACHED)), controller.tail())
        leader = fleet.wait_leader()
        leader.kill()
        fleet.wait_leader(but=leader)

    def test_it_is_told_to_stop_while_it_waits(self):
        controller = self.make().controllers[0]
        self.start(controller)
        self.assertEqual(0, controller.stop(), controller.tail())
        self.assertTrue(self.said(controller, "controller: stopped"), controller.tail())

    def test_one_without_leadership_ends(self):
        controller = self.make().controllers[0]
        at = controller.argv.index("--advertise")
        del controller.argv[at : at + 2]
        controller.start()
        self.wait_ended(controller, "none of 1 endpoints serves")

    def with_store(self, change):
        """The first controller with another address of the store."""
        controller = self.fleet.controllers[0]
        at = controller.argv.index("--store") + 1
        controller.argv[at] = change(self.fleet.store_address())
        return controller

    def test_what_no_waiting_mends_while_etcd_is_away(self):
        fleet = self.make(certify=certify)
        for change, words in (
            (lambda address: address.replace("ca.crt", "none.crt"), "store: ca: open"),
            (lambda address: address.replace("client.key", "none.key"), "store: key: open"),
            (lambda address: f"{address}&user=baton&passwordFile={fleet.dir}/none", "store: passwordFile: open"),
            (lambda address: address.replace("/baton?", "/" + "b" * 130 + "?"), "the prefix is longer"),
            (lambda address: address.replace("etcd:https", "etcd:ftp"), "write etcd:"),
        ):
            controller = self.with_store(change)
            controller.start()
            self.wait_ended(controller, words)
            self.assertEqual(0, self.said(controller, OUT_OF_REACH), controller.tail())

    def test_a_wrong_certificate(self):
        """Of etcd that runs, and of one that comes later."""
        fleet = self.make(certify=certify)
        other = fleet.dir / "other"
        other.mkdir()
        make_authority(other)
        controller = self.with_store(lambda address: address.replace(f"{fleet.dir}/ca.crt", f"{other}/ca.crt"))
        self.start(controller)
        fleet.start_etcd()
        self.wait_ended(controller, "check ca=")
        controller.start()
        self.wait_ended(controller, "check ca=")
        self.assertEqual(0, self.said(controller, OUT_OF_REACH), controller.tail())

    def tell_etcd(self, path, body):
        """A busy member may say that it ran out of time, and do it all the same: then the repetition is refused."""
        codes = []

        def is_done():
            try:
                self.fleet.ask_etcd(path, json.dumps(body))
            except urllib.error.HTTPError as error:
                codes.append(error.code)
                self.assertIn(error.code, (400, 503) if len(codes) > 1 else (503,), path)
                return error.code == 400
            return True

        wait_until(lambda: f"etcd does {path}: {codes}", is_done)

    def test_credentials_are_refused(self):
        fleet = self.make()
        fleet.start_etcd()
        for path, body in (
            ("auth/user/add", {"name": "root", "password": "right"}),
            ("auth/role/add", {"name": "root"}),
            ("auth/user/grant", {"user": "root", "role": "root"}),
            ("auth/enable", {}),
        ):
            self.tell_etcd(path, body)
        (fleet.dir / "password").write_text("wrong\n")
        controller = self.with_store(lambda address: f"{address}?user=root&passwordFile={fleet.dir}/password")
        controller.start()
        self.wait_ended(controller, "check user=")
        (fleet.dir / "password").write_text("right\n")
        controller.start()
        wait_until(lambda: f"it leads\n{controller.tail()}", lambda: fleet.leads(controller))


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
@unittest.skipIf(Reflected is None, "python3-grpcio is not installed")
class StandbyReads(unittest.TestCase):
    """What standbys tell: what is stored, marked with revision and age, to who asks for it; and when it is too old, that."""

    def setUp(self):
        # A lease that a starved leader does not lose: who stands by is asked, and must go on doing so.
        self.fleet = Several({"a": {"one": [1], "two": [1]}, "b": {"three": [1]}}, leadership="lease: 4s", times={"retryFirst": "100ms", "retryMax": "1s"})
        self.addCleanup(self.fleet.close)
        self.fleet.start_all()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.reflected = {}

    def call(self, address, method, metadata=STORED, **fields):
        """The answer and its trailing metadata."""
        server = self.reflected.setdefault(address, Reflected(address))
        call, request, _ = server.method(method)
        answer, done = call.with_call(request(**fields), timeout=TIMEOUT_S, metadata=metadata)
        return answer, {k: v for k, v in done.trailing_metadata() or () if k.startswith("x-baton-stored")}

    def refusal(self, address, method, metadata=STORED, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(address, method, metadata, **fields)
        return caught.exception

    def standbys(self):
        leader = self.fleet.wait_leader()
        return [a for c, a in zip(self.fleet.controllers, self.fleet.addresses) if c is not leader]

    def committed(self, address):
        """{group: seq} by a standby's copy; empty while it refuses, or leads."""
        try:
            answer, mark = self.call(address, "baton.v1.Fleet/ListGroups")
        except grpc.RpcError as error:
            self.assertEqual(grpc.StatusCode.UNAVAILABLE, error.code(), error.details())
            return {}
        if not mark:
            return {}
        self.assertEqual(str(answer.revision), mark["x-baton-stored-revision"])
        self.assertGreaterEqual(int(mark["x-baton-stored-age-ms"]), 0)
        return {g.meta.name: g.committed_seq for g in answer.groups}

    def wait_committed(self, address, seq):
        expected = dict.fromkeys(("one", "two", "three"), seq)
        wait_until(lambda: f"{address} knows v{seq}: {self.committed(address)}\n{self.fleet.tails()}", lambda: self.committed(address) == expected)

    def note(self, err):
        """Revision and age of what batonctl shows; null: it is a leader's."""
        found = re.search(r"note: no controller that leads was found; .* at revision (\d+), known to be current ([0-9.]+) s ago", err)
        return (int(found[1]), float(found[2])) if found else None

    def test_standbys_tell_what_is_stored(self):
        leader = self.fleet.addresses[self.fleet.controllers.index(self.fleet.wait_leader())]
        theirs, mark = self.call(leader, "baton.v1.Versions/List", model="m")
        self.assertEqual({}, mark)
        for standby in self.standbys():
            self.wait_committed(standby, 1)
            versions, _ = self.call(standby, "baton.v1.Versions/List", model="m")
            self.assertEqual([(v.seq, v.digest) for v in theirs.versions], [(v.seq, v.digest) for v in versions.versions])
            model, mark = self.call(standby, "baton.v1.Models/Get", name="m")
            self.assertEqual((1, 1, 3, 0), (model.status.newest_seq, model.status.promoted_seq, model.status.groups, len(model.status.conditions)))
            self.assertEqual(2, len(mark), mark)
            group, _ = self.call(standby, "baton.v1.Fleet/GetGroup", name="one")
            self.assertEqual((1, 0, 0, 0), (group.committed_seq, len(group.engines), len(group.conditions), group.lineage_relation))
            roll, _ = self.call(standby, "baton.v1.Rolls/Get", model="m")
            self.assertEqual((1, 3, 3), (roll.to_seq, roll.groups_total, roll.groups_done))
            history, _ = self.call(standby, "baton.v1.Rolls/History", model="m")
            self.assertEqual([1], [r.to_seq for r in history.rolls])
            swaps, _ = self.call(standby, "baton.v1.Fleet/ListSwaps")
            self.assertEqual({"one", "two", "three"}, {s.group for s in swaps.swaps})
            self.assertEqual(grpc.StatusCode.NOT_FOUND, self.refusal(standby, "baton.v1.Fleet/GetGroup", name="none").code())

    def test_the_rest_is_the_leaders(self):
        standby = self.standbys()[0]
        self.wait_committed(standby, 1)
        self.assertIn("stands by", self.refusal(standby, "baton.v1.Models/List", metadata=()).details())
        for method in ("Fleet/ListAgents", "Fleet/ListEngines", "Staleness/Summary", "Rolls/Plan", "Admission/Resolve"):
            refused = self.refusal(standby, f"baton.v1.{method}")
            self.assertEqual(grpc.StatusCode.UNAVAILABLE, refused.code(), method)
            self.assertIn("stands by", refused.details(), method)
        self.assertEqual(grpc.StatusCode.UNAVAILABLE, self.refusal(standby, "baton.v1.Models/Suspend", name="m").code())
        self.assertFalse(self.fleet.get("models")[0]["status"].get("suspended", False))

    def test_the_leader_dies(self):
        """etcd is well: the standbys' answers stay right, and the next leader goes on from them."""
        leader = self.fleet.wait_leader()
        standbys = self.standbys()
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        for standby in standbys:
            self.wait_committed(standby, 2)
        leader.kill()
        told = [self.committed(standby) for standby in standbys]
        self.assertIn(dict.fromkeys(("one", "two", "three"), 2), told)
        after = self.fleet.wait_leader(but=leader)
        self.fleet.wait_serving(2)
        last = next(a for c, a in zip(self.fleet.controllers, self.fleet.addresses) if c not in (leader, after))
        self.fleet.publish("v3")
        self.fleet.wait_serving(3)
        self.wait_committed(last, 3)

    def test_etcd_is_away(self):
        """Nobody leads: batonctl shows the last known on demand, marked and ever older; what changes something is refused."""
        fleet = self.fleet
        leader = fleet.wait_leader()
        for standby in self.standbys():
            self.wait_committed(standby, 1)
        code, _, err = fleet.run("get", "groups", "--last-known")
        self.assertEqual((0, None), (code, self.note(err)), err)
        fleet.etcd.kill()
        wait_until(lambda: f"it leads no longer\n{leader.tail()}", lambda: not fleet.leads(leader))
        self.assertEqual(4, fleet.run("get", "groups", "--timeout", "5s")[0])
        code, out, err = fleet.run("get", "groups", "--last-known", "-o", "json")
        self.assertEqual(0, code, err)
        self.assertEqual({"1"}, {str(g["committedSeq"]) for g in json.loads(out)["items"]})
        first = self.note(err)
        self.assertIsNotNone(first, err)
        code, out, err = fleet.run("get", "groups", "--last-known")
        self.assertEqual((0, 3), (code, len(re.findall(r" \? .* \? ", out))), out + err)
        self.assertIn("UNKNOWN", out)
        second = self.note(err)
        self.assertEqual(first[0], second[0])
        self.assertGreater(second[1], first[1])
        code, out, err = fleet.run("describe", "group/one", "--last-known")
        self.assertEqual(0, code, out + err)
        self.assertNotIn("gate", out.split("Last swap")[0])
        code, _, err = fleet.run("hold", "model/m", "--reason", "too late", "--last-known", "--timeout", "5s")
        self.assertEqual(4, code, err)
        self.assertIn("NOT_LEADER", err)
        fleet.etcd.start()
        wait_until(lambda: f"one leads again\n{fleet.tails()}", lambda: fleet.run("get", "models")[0] == 0)
        code, _, err = fleet.run("get", "models", "--last-known")
        self.assertEqual((0, None), (code, self.note(err)), err)

    def test_too_old_is_said(self):
        """A standby with a short bound: it answers while it hears of etcd, and says since when it does not."""
        fleet = self.fleet
        address = f"127.0.0.1:{free_ports(1)[0]}"
        config = fleet.dir / "short.yaml"
        config.write_text("leadership: {lastKnown: 3s, lease: 4s}\n")
        argv = [*fleet.argv_of(0), "--config", str(config)]
        argv[argv.index("--listen") + 1] = argv[argv.index("--advertise") + 1] = address
        short = Process("short", argv, fleet.dir / "short.log")
        self.addCleanup(short.kill)
        short.start()
        wait_until(lambda: f"it answers\n{short.tail()}", lambda: "another controller leads" in short.tail())
        self.wait_committed(address, 1)
        fleet.etcd.kill()

        def is_too_old():
            try:
                self.call(address, "baton.v1.Fleet/ListGroups")
            except grpc.RpcError as error:
                return "last known to be current" in error.details()
            return False

        wait_until(lambda: f"it says that it is too old\n{short.tail()}", is_too_old)
        fleet.etcd.start()
        known = dict.fromkeys(("one", "two", "three"), 1)
        # It may lead now.
        wait_until(lambda: f"it answers again\n{short.tail()}", lambda: self.committed(address) == known or "this controller leads" in short.tail())


if __name__ == "__main__":
    unittest.main()
