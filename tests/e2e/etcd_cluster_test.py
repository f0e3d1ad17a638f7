#!/usr/bin/env python3
"""Three controllers on an etcd that has troubles: members with TLS die in a roll and come back, the quota is full, clocks are hours apart."""

import glob
import json
import shutil
import unittest

from fleet import check_answers, read_answers, wait_until
from several import Several, serves
from tls_test import certify

GROUPS = {"a": {"one": [1], "two": [1]}, "b": {"three": [1]}}
TIMES = {"retryFirst": "100ms", "retryMax": "1s"}
FAKETIME = next(iter(glob.glob("/usr/lib/*/faketime/libfaketimeMT.so.1")), None)
JUNK = '{"key":"AAE=","value":"' + "A" * 600000 + '"}'


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class Cluster(unittest.TestCase):
    def make(self, **options):
        self.fleet = Several(GROUPS, times=TIMES, **options)
        self.addCleanup(self.fleet.close)
        return self.fleet

    def check_swaps(self, traffic, names):
        """Every request was answered, by one version; each group was swapped once to each version but the first. A ticket of a leadership that has
        ended is refused, touches nothing, and comes again."""
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, names)
        for group in ("one", "two", "three"):
            outcomes = [(seq, how) for _, seq, how in self.fleet.outcomes(group) if seq > 1 and how != "REFUSED"]
            self.assertEqual([(seq, "COMMITTED") for seq in names if seq > 1], outcomes, group)

    def leading_members(self):
        """The places of the members that say that they lead."""
        said = [json.loads(self.fleet.ask_etcd("maintenance/status", "{}", i)) for i in range(len(self.fleet.members))]
        return [i for i, status in enumerate(said) if status["leader"] == status["header"]["member_id"]]

    def test_members_with_certificates_die_in_rolls(self):
        fleet = self.make(members=3, certify=certify)
        fleet.start_all()
        fleet.publish("v1")
        fleet.wait_serving(1)
        traffic = fleet.start_traffic()
        leader = wait_until("a member leads", self.leading_members)[0]
        fleet.publish("v2")
        wait_until("a ticket is out", lambda: any(e["reason"] == "TicketIssued" for e in fleet.events()))
        fleet.members[leader].kill()
        fleet.wait_serving(2)
        fleet.members[leader].start()
        wait_until("the member serves again", lambda: serves(fleet.etcd_ports[leader], fleet.tls))
        other = (leader + 1) % 3
        fleet.members[other].kill()
        fleet.publish("v3")
        fleet.wait_serving(3)
        self.check_swaps(traffic, {1: "v1", 2: "v2", 3: "v3"})
        address = fleet.store_address()
        self.assertEqual(0, fleet.run("store", "check", "--store", address)[0])
        code, _, err = fleet.run("store", "check", "--store", address[: address.index("&cert=")])
        self.assertEqual(4, code, "etcd let in somebody without a certificate")
        self.assertIn("none of 3 endpoints serves", err)

    def test_quota_is_full(self):
        """Nothing is changed, groups serve on, and all goes on by itself once there is room."""
        fleet = self.make()
        fleet.etcd.argv += ["--quota-backend-bytes", "8000000"]
        fleet.start_all()
        fleet.publish("v1")
        fleet.wait_serving(1)
        traffic = fleet.start_traffic()
        wait_until("the quota is full", self.is_full)
        code, out, err = fleet.run("hold", "model/m", "--reason", "no room")
        self.assertNotEqual(0, code, out)
        wait_until("a log says why", lambda: any("space exceeded" in line for c in fleet.controllers for line in fleet.lines_of(c)))
        wait_until("nobody leads", lambda: fleet.leader() is None)
        self.make_room()
        wait_until(lambda: f"one leads again\n{fleet.tails()}", lambda: fleet.run("get", "models")[0] == 0)
        self.assertNotIn("held", fleet.get("models")[0]["status"])
        fleet.publish("v2")
        fleet.wait_serving(2)
        self.check_swaps(traffic, {1: "v1", 2: "v2"})

    def is_full(self):
        try:
            self.fleet.ask_etcd("kv/put", JUNK)
        except OSError as error:
            return "space exceeded" in error.read().decode()
        return False

    def make_room(self):
        """As etcd's handbook says: compact, defragment, disarm."""
        status = json.loads(self.fleet.ask_etcd("maintenance/status", "{}"))
        self.fleet.ask_etcd("kv/compaction", json.dumps({"revision": status["header"]["revision"], "physical": True}))
        self.fleet.ask_etcd("maintenance/defragment", "{}")
        alarm = {"action": "DEACTIVATE", "memberID": status["header"]["member_id"], "alarm": "NOSPACE"}
        self.fleet.ask_etcd("maintenance/alarm", json.dumps(alarm))

    # --- clocks ---

    def clock_of(self, i):
        return self.fleet.dir / f"clock{i}"

    def set_clocks(self, *offsets):
        """The wall clocks of the controllers, in seconds beside the right time."""
        for i, offset in enumerate(offsets):
            self.clock_of(i).write_text(f"{offset:+d}s\n")

    def lead_epochs(self, controller):
        return [line.split("core started ")[1] for line in controller.log.read_text().splitlines() if "core started" in line]

    @unittest.skipUnless(FAKETIME, "libfaketime is not installed (deploy/install.sh test)")
    def test_clocks_are_apart_and_jump(self):
        """Leaderships, epochs and seqs rest on no wall clock."""
        fleet = self.make(members=3)
        self.set_clocks(3600, -3600, 0)
        for i, controller in enumerate(fleet.controllers):
            controller.env = {
                "LD_PRELOAD": FAKETIME, "FAKETIME_TIMESTAMP_FILE": str(self.clock_of(i)), "FAKETIME_NO_CACHE": "1",
                "DONT_FAKE_MONOTONIC": "1", "FAKETIME_FORCE_MONOTONIC_FIX": "0",
            }  # fmt: skip
        fleet.start_all()
        first = fleet.wait_leader()
        place = fleet.controllers.index(first)
        self.assertEqual(3, len({line.split(":")[0] for line in (fleet.lines_of(c)[0] for c in fleet.controllers)}), "their hours differ")
        fleet.publish("v1")
        fleet.wait_serving(1)
        traffic = fleet.start_traffic()
        started = self.lead_epochs(first)
        self.clock_of(place).write_text("-86400s\n")
        fleet.publish("v2")
        fleet.wait_serving(2)
        self.clock_of(place).write_text("+86400s\n")
        fleet.wait_roll(2)
        days = [line[:10] for line in fleet.lines_of(first)]
        self.assertLess(days[-1], days[0], "its clock did not jump")
        self.assertEqual((True, started), (fleet.leads(first), self.lead_epochs(first)), "a clock that jumped cost the leadership")
        first.kill()
        second = fleet.wait_leader(but=first)
        self.assertEqual(3, fleet.publish("v3")["seq"])
        fleet.wait_serving(3)
        numbers = [[int(word) for word in line.split() if word.isdigit()][:2] for line in (started[-1], self.lead_epochs(second)[-1])]
        self.assertEqual((numbers[0][0], True), (numbers[1][0], numbers[1][1] > numbers[0][1]), "the generation stays, the epoch rises")
        self.check_swaps(traffic, {1: "v1", 2: "v2", 3: "v3"})


if __name__ == "__main__":
    unittest.main()
