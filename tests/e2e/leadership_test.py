#!/usr/bin/env python3
"""Three controllers, of which one leads: it is killed in a roll, told to stop, stands still, loses etcd; standbys send callers to it."""

import json
import os
import shutil
import signal
import sys
import unittest

import fleet as rig
from fleet import Process, check_answers, free_ports, read_answers, wait_until
from several import LEADS_NO_LONGER, Several

sys.path.insert(0, str(rig.ROOT / "tests/conformance"))
try:
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    Reflected = None
SERVING, NOT_SERVING = 1, 2


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
        """Each group was swapped once to each version, and no swap failed."""
        for group in ("one", "two", "three"):
            self.assertEqual([(s, "COMMITTED") for s in seqs], [(seq, how) for _, seq, how in self.fleet.outcomes(group) if seq in seqs])

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


if __name__ == "__main__":
    unittest.main()
