#!/usr/bin/env python3
"""What operators do to groups, versions and agents while requests run: cordon, drain, pin, quarantine, retire, and back."""

import json
import shutil
import unittest
import urllib.error
import urllib.request

from fleet import Fleet, check_answers, read_answers, wait_until

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s"}


class Verbs(unittest.TestCase):
    def make(self, groups=None, **update):
        fleet = Fleet(groups or {"a": {"one": [1]}, "b": {"two": [1]}, "c": {"three": [1]}}, faults=True, times=TIMES)
        self.addCleanup(fleet.close)
        fleet.start()
        if update:
            fleet.apply_model(**update)
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def blocked(self, fleet, group):
        item = fleet.group_items()[group]
        return item.get("blockedReason", "").removeprefix("BLOCKED_REASON_"), item.get("blockedMessage", "")

    def wait_blocked(self, fleet, group, reason):
        wait_until(lambda: f"{group}: {reason}, not {self.blocked(fleet, group)}", lambda: self.blocked(fleet, group)[0] == reason)
        return self.blocked(fleet, group)[1]

    def refused(self, fleet, *words):
        code, out, err = fleet.run(*words)
        self.assertEqual(1, code, out + err)
        return err

    def ask(self, fleet, engine):
        """HTTP status of a client's request, which has no token."""
        body = json.dumps({"model": "default", "prompt": "x", "max_tokens": 1}).encode()
        request = urllib.request.Request(fleet.engines[engine] + "/v1/completions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def serves(self, fleet, group, seq):
        item = fleet.group_items().get(group, {})
        return int(item.get("committedSeq", 0)) == seq and item.get("gateOpen", False)

    def test_cordon_during_a_roll(self):
        """The cordoned group goes on serving the old version, the roll completes without it, and it catches up."""
        fleet = self.make()
        traffic = fleet.start_traffic()
        self.assertIn("group/two cordoned", fleet.ctl("cordon", "group/two", "--reason", "its GPU is checked"))
        fleet.publish("v2")
        self.assertEqual(0, fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])
        fleet.wait_serving(2, groups=["one", "three"])
        self.assertTrue(self.serves(fleet, "two", 1))
        described = fleet.ctl("describe", "group", "two")
        self.assertRegex(described, r"cordoned +its GPU is checked")
        fleet.wait_roll(2)
        fleet.ctl("uncordon", "group/two")
        fleet.wait_serving(2)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1", 2: "v2"})

    def test_drain_and_back(self):
        """A drained group refuses requests, stays away through a restart of its agent, and comes back on its own weights."""
        fleet = self.make()
        fleet.ctl("drain", "group/two", "--reason", "new driver")
        wait_until("two is drained", lambda: fleet.group_items()["two"].get("stateMessage") == "drained")
        self.assertEqual(503, self.ask(fleet, "two.e0"))
        self.assertIn("batonctl uncordon group/two", self.wait_blocked(fleet, "two", "GROUP_CORDONED"))
        fleet.publish("v2")
        self.wait_blocked(fleet, "one", "BUDGET_FULL")
        fleet.agents["b"].kill()
        fleet.agents["b"].start()
        fleet.wait_connected()
        wait_until("two is drained", lambda: fleet.group_items()["two"].get("stateMessage") == "drained")
        fleet.ctl("uncordon", "agent/b")
        fleet.wait_serving(2)

    def test_pin_of_a_group(self):
        fleet = self.make()
        fleet.ctl("pin", "group/one", "--reason", "baseline")
        fleet.publish("v2")
        fleet.wait_serving(2, groups=["two", "three"])
        self.assertIn("baseline; batonctl unpin group/one", fleet.ctl("describe", "group", "one"))
        code, out, err = fleet.run("wait", "m", "--for=converged", "--timeout", "60s")
        self.assertEqual(6, code, out + err)
        self.assertIn("is pinned to version 1", out + err)
        fleet.ctl("unpin", "group/one")
        fleet.wait_serving(2)

    def test_quarantine(self):
        """Not rolled any more; with --evict the groups that serve it go back; unquarantined it may be rolled again."""
        fleet = self.make()
        fleet.publish("v2")
        fleet.wait_serving(2)
        self.assertIn("version/m@2 quarantined", fleet.ctl("quarantine", "m@2", "--reason", "reward collapsed"))
        self.assertIn("version 2 is quarantined: reward collapsed", self.wait_blocked(fleet, "one", "VERSION_QUARANTINED"))
        self.assertIn("batonctl unquarantine m@2", self.refused(fleet, "roll", "start", "m", "--to", "2"))
        fleet.ctl("quarantine", "m@2", "--evict")
        fleet.wait_serving(1)
        fleet.ctl("unquarantine", "m@2")
        fleet.ctl("roll", "start", "m", "--to", "2")
        fleet.wait_serving(2)
        pinned = json.loads(fleet.ctl("pin", "version/m@1", "-o", "json"))
        self.assertTrue(pinned["pinned"])
        self.assertIn("no version", self.refused(fleet, "pin", "m@9"))

    def test_retired_group_lets_the_roll_complete_and_returns(self):
        """An agent that is gone holds the only slot; retired, the roll completes; back again, its gate is shut before it joins as new."""
        fleet = self.make()
        fleet.agents["b"].kill()
        wait_until("two is unknown", lambda: fleet.group_items()["two"]["state"] == "GROUP_STATE_UNKNOWN")
        fleet.publish("v2")
        self.wait_blocked(fleet, "one", "BUDGET_FULL")
        self.assertIn("--attest-dead", self.refused(fleet, "retire", "group/two"))
        self.assertIn("group/two retired", fleet.ctl("retire", "group/two", "--attest-dead", "--reason", "its node burnt"))
        self.assertEqual(0, fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])
        self.assertEqual("GROUP_STATE_RETIRED", fleet.group_items()["two"]["state"])
        self.assertEqual(2, int(fleet.get("rolls")[0]["groupsTotal"]))
        self.assertTrue(fleet.engine_call("two.e0", "GET", "/v1/models")[0] == 200, "its engine lived on all the while")
        fleet.agents["b"].start()
        fleet.wait_serving(2)
        reasons = [e["reason"] for e in fleet.events("group/two")]
        self.assertIn("GroupReturned", reasons)
        self.assertIn("Draining", reasons)
        self.assertNotEqual("GROUP_STATE_RETIRED", fleet.group_items()["two"]["state"])

    def test_serving_group_is_not_retired(self):
        fleet = self.make()
        self.assertIn("batonctl drain", self.refused(fleet, "retire", "group/one", "--attest-dead"))
        fleet.ctl("drain", "group/one")
        wait_until("one is drained", lambda: fleet.group_items()["one"].get("stateMessage") == "drained")
        fleet.ctl("retire", "group/one")
        fleet.publish("v2")
        self.assertEqual(0, fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])

    def test_group_that_left_its_agents_configuration(self):
        """It is not forgotten: it counts and says what to do; another agent may take it over."""
        fleet = self.make({"a": {"one": [1], "two": [1]}, "b": {"three": [1]}})
        path = fleet.dir / "a.yaml"
        config = json.loads(path.read_text())
        moved = next(g for g in config["groups"] if g["name"] == "two")
        config["groups"] = [g for g in config["groups"] if g["name"] != "two"]
        fleet.agents["a"].kill()
        path.write_text(json.dumps(config))
        fleet.agents["a"].start()
        message = self.wait_blocked(fleet, "two", "AGENT_UNKNOWN")
        wait_until("it says what to do", lambda: "batonctl retire group/two" in self.blocked(fleet, "two")[1])
        self.assertTrue(message)
        other = json.loads((fleet.dir / "b.yaml").read_text())
        for pid_file in (fleet.dir / "a" / "engines").glob("two.e0.*"):
            shutil.copy2(pid_file, fleet.dir / "b" / "engines" / pid_file.name)
        other["groups"].append(moved)
        fleet.agents["b"].kill()
        (fleet.dir / "b.yaml").write_text(json.dumps(other))
        fleet.agents["b"].start()
        wait_until(lambda: f"it is b's: {fleet.group_items()['two']}", lambda: fleet.group_items()["two"]["agent"] == "b")
        fleet.wait_serving(1)


if __name__ == "__main__":
    unittest.main()
