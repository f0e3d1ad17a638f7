#!/usr/bin/env python3
"""Colocated training: groups give their device away and come back with weights that were verified, whatever dies meanwhile."""

import json
import os
import unittest
import urllib.error
import urllib.request

from fleet import Fleet, check_answers, read_answers, wait_until

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s", "recreateAfter": "2s", "engineLost": "3s"}
GROUPS = {"a": {"one": [2]}, "b": {"two": [1]}}


class Sleep(unittest.TestCase):
    def make(self, groups=None, arguments=("--enable-sleep-mode", "--kv-blocks", "8192")):
        fleet = Fleet(groups or GROUPS, faults=True, times=TIMES, arguments=list(arguments))
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def state(self, fleet, group):
        item = fleet.group_items()[group]
        reason = item.get("blockedReason", "").removeprefix("BLOCKED_REASON_")
        return item["state"].removeprefix("GROUP_STATE_"), reason

    def wait_asleep(self, fleet, group):
        sleeps = lambda: self.state(fleet, group) == ("ASLEEP", "GROUP_ASLEEP")
        wait_until(lambda: f"{group} sleeps: {fleet.group_items()[group]}\n{fleet.tails()}", sleeps)

    def resident_bytes(self, fleet, engine):
        """Of all ranks of the engine."""
        total = 0
        for pid in fleet.session_pids(fleet.engine_pids()[engine]):
            with open(f"/proc/{pid}/statm", encoding="utf-8") as statm:
                total += int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        return total

    def ask(self, fleet, engine):
        """HTTP status of a client's request, which has no token."""
        body = json.dumps({"model": "default", "prompt": "x", "max_tokens": 1}).encode()
        request = urllib.request.Request(fleet.engines[engine] + "/v1/completions", body, {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=20) as answer:
                return answer.status
        except urllib.error.HTTPError as error:
            return error.code

    def judge(self, traffic, names):
        """While everybody sleeps, clients are refused; nobody ever gets an answer that is no version's."""
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual(set(), {a["status"] for a in answers} - {200, 503}, [a for a in answers if a["status"] not in (200, 503)][:3])
        check_answers([a for a in answers if a["status"] == 200], names)

    def test_a_training_step(self):
        """The whole model sleeps, its memory is released, the trainer publishes, and all wake up with the new version."""
        fleet = self.make()
        before = {engine: self.resident_bytes(fleet, engine) for engine in fleet.engines}
        traffic = fleet.start_traffic()
        out = fleet.ctl("sleep", "model/m", "--reason", "train step 1")
        self.assertIn("group/one falls asleep", out)
        self.assertIn("group/two falls asleep", out)
        out = fleet.ctl("wait", "m", "--for=asleep", "--timeout", "60s")
        self.assertIn("model/m asleep", out)
        for engine, full in before.items():
            self.assertLess(self.resident_bytes(fleet, engine), full, engine)
            self.assertEqual(503, self.ask(fleet, engine))
        self.assertIn("VERSION_NOT_READY", "".join(fleet.run("endpoints", "m")[1:]))
        self.assertRegex(fleet.ctl("describe", "group", "one"), r"asleep +train step 1")
        fleet.publish("v2")
        wait_until("version 2 is promoted", lambda: int(fleet.get("models")[0]["status"]["promotedSeq"]) == 2)
        self.assertEqual(("ASLEEP", "GROUP_ASLEEP"), self.state(fleet, "one"))
        fleet.ctl("wake", "model/m")
        self.assertEqual(0, fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])
        fleet.wait_serving(2)
        self.judge(traffic, {1: "v1", 2: "v2"})

    def test_one_group_sleeps_while_the_others_roll(self):
        fleet = self.make()
        fleet.ctl("sleep", "group/two")
        self.wait_asleep(fleet, "two")
        fleet.publish("v2")
        self.assertEqual(0, fleet.run("wait", "m", "--for=converged", "--timeout", "60s")[0])
        fleet.wait_serving(2, groups=["one"])
        self.assertEqual(("1", "1"), tuple(str(fleet.get("rolls")[0][k]) for k in ("groupsTotal", "groupsDone")))
        self.assertNotIn("two", fleet.ctl("endpoints", "m"))
        fleet.ctl("wake", "group/two")
        fleet.wait_serving(2)

    def test_restarts_while_asleep(self):
        """Agent and controller die: it sleeps on, untouched. Its engine's process ends: none is started before it is woken."""
        fleet = self.make()
        fleet.ctl("sleep", "group/two")
        self.wait_asleep(fleet, "two")
        for process in (fleet.agents["b"], fleet.controller):
            process.kill()
            process.start()
            fleet.wait_controller()
            fleet.wait_connected()
            self.wait_asleep(fleet, "two")
        self.assertEqual("sleeping", fleet.engine_call("two.e0", "POST", "/wake_up?tags=scheduling")[1]["status"])
        pid = fleet.engine_pids()["two.e0"]
        os.kill(pid, 9)
        wait_until("it sleeps without it", lambda: any("engine e0 has ended" in e.get("message", "") for e in fleet.events("group/two")))
        self.wait_asleep(fleet, "two")
        self.assertIn("model/m asleep", fleet.ctl("wait", "m", "--for=asleep", "--timeout", "60s"))
        self.assertEqual(pid, fleet.engine_pids().get("two.e0", pid), "none was started")
        fleet.ctl("wake", "group/two")
        fleet.wait_serving(1)

    def test_agent_dies_while_an_engine_falls_asleep(self):
        """That call may come to work at any time: the engine is another one before anything else is done."""
        fleet = self.make()
        pid = fleet.engine_pids()["two.e0"]
        fleet.set_fault("two.e0", kind="hang", phase="sleep")
        fleet.ctl("sleep", "group/two")
        wait_until("the engine hangs", lambda: "FallsAsleep" in [e["reason"] for e in fleet.events("group/two")])
        fleet.agents["b"].kill()
        fleet.ctl("wake", "group/two")
        fleet.agents["b"].start()
        fleet.wait_serving(1)
        self.assertNotEqual(pid, fleet.engine_pids()["two.e0"])

    def test_without_sleep_mode(self):
        """Nothing would be released: it says what to do, stays shut, and comes back by wake."""
        fleet = self.make(arguments=())
        pid = fleet.engine_pids()["two.e0"]
        fleet.ctl("sleep", "group/two")
        message = wait_until("it says why", lambda: "sleep mode" in fleet.group_items()["two"].get("blockedMessage", "") and fleet.group_items()["two"])
        self.assertIn("does not sleep", message["blockedMessage"])
        self.assertEqual(503, self.ask(fleet, "two.e0"))
        code, out, err = fleet.run("wait", "m", "--for=asleep", "--timeout", "1s")
        self.assertNotEqual(0, code, out + err)
        fleet.ctl("wake", "group/two")
        fleet.wait_serving(1)
        self.assertEqual(pid, fleet.engine_pids()["two.e0"], "no engine was killed for it")

    def test_group_of_several_agents(self):
        fleet = self.make({"a": {"g0": [1]}, "b": {"g0": [1]}})
        fleet.ctl("sleep", "group/g0")
        self.wait_asleep(fleet, "g0")
        for engine in fleet.engines:
            self.assertEqual("sleeping", fleet.engine_call(engine, "POST", "/wake_up?tags=scheduling")[1]["status"], engine)
        fleet.agents["b"].kill()
        fleet.agents["b"].start()
        fleet.wait_connected()
        fleet.ctl("wake", "group/g0")
        fleet.publish("v2")
        fleet.wait_serving(2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
