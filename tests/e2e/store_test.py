#!/usr/bin/env python3
"""The controller's store is lost while the fleet serves: a new one, agents restate, the operator rebuilds; nobody notices."""

import unittest

from fleet import Fleet, check_answers, read_answers, wait_until

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s"}


class Lost(unittest.TestCase):
    def test_rebuild_from_agents(self):
        fleet = Fleet({"a": {"one": [1]}, "b": {"two": [2]}}, times=TIMES)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        second = fleet.publish("v2")
        fleet.wait_serving(2)
        traffic = fleet.start_traffic()
        tickets = {g: int(item["lastSwap"]["ticketNumber"]) for g, item in fleet.group_items().items()}
        fleet.controller.kill()
        for path in fleet.dir.glob("controller.db*"):
            path.unlink()
        fleet.controller.start()
        fleet.wait_controller()
        wait_until("both agents restated", lambda: sum(a.get("connected", False) for a in fleet.get("agents")) == 2, 60)
        self.assertEqual([], fleet.get("versions"))
        self.assertIn("1 versions can be rebuilt", fleet.ctl("store", "rebuild", "--from-agents", "--dry-run"))
        self.assertIn("1 versions rebuilt", fleet.ctl("store", "rebuild", "--from-agents", "--reason", "its disk burnt"))
        version = fleet.get("versions")[0]
        self.assertEqual((2, second["digest"], second["uid"]), (int(version["seq"]), version["digest"], version["meta"]["uid"]))
        self.assertTrue(version["sources"][0]["location"], version)
        self.assertEqual(2, int(fleet.get("models")[0]["status"]["promotedSeq"]))
        fleet.apply_model(**fleet.default_update())
        fleet.wait_serving(2)
        for group, item in fleet.group_items().items():
            self.assertNotIn("lastSwap", item, f"{group} was swapped because the store was lost")
        third = fleet.publish("v3")
        self.assertEqual(3, third["seq"])
        fleet.wait_serving(3)
        for group, item in fleet.group_items().items():
            self.assertGreater(int(item["lastSwap"]["ticketNumber"]), tickets[group])
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {2: "v2", 3: "v3"})
        code, out, err = fleet.run("store", "floors", "--attest")
        self.assertEqual(2, code, out + err)


if __name__ == "__main__":
    unittest.main()
