#!/usr/bin/env python3
"""Break-glass at an agent's own node, with the controller dead: status, resume, restore, detach; by root and the agent's own user only."""

import json
import os
import shutil
import subprocess
import unittest

from fleet import Fleet, check_answers, program, read_answers, wait_until

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s", "engineLost": "2s", "recreateAfter": "1s"}


class BreakGlass(unittest.TestCase):
    def make(self):
        fleet = Fleet({"a": {"one": [1]}, "b": {"two": [1]}}, faults=True, times=TIMES)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def local(self, fleet, agent, *words):
        """(exit code, output) of batonctl at an agent's socket."""
        code, out, err = fleet.run("--agent", f"unix:{fleet.dir}/{agent}.sock", *words)
        return code, out + err

    def status(self, fleet, agent):
        """The agent's first group, as its own node tells it."""
        code, out = self.local(fleet, agent, "status", "-o", "json")
        self.assertEqual(0, code, out)
        lines = [json.loads(line) for line in out.splitlines()]
        self.assertEqual(agent, lines[0]["agent"])
        return lines[1]

    def lose_controller(self, fleet):
        fleet.controller.kill()
        for suffix in ("", "-wal", "-shm"):
            (fleet.dir / f"controller.db{suffix}").unlink(missing_ok=True)

    def test_status_and_refusals(self):
        fleet = self.make()
        self.lose_controller(fleet)
        group = self.status(fleet, "a")
        self.assertEqual(("one", "SERVING", 1, True), (group["group"], group["state"], group["committedSeq"], group["gateOpen"]))
        self.assertEqual("COMMITTED", group["lastSwap"]["outcome"])
        wait_until("the agent noticed it", lambda: "no controller answers" in self.local(fleet, "a", "status")[1])
        code, out = self.local(fleet, "a", "status")
        self.assertEqual(0, code)
        self.assertRegex(out, r"(?s)no controller answers.*Group one:.*committed +v1.*journal's last swap +ticket 1, v0 -> v1: COMMITTED.*engine e0 +gate open")
        code, out = self.local(fleet, "a", "restore", "group/one")
        self.assertEqual(1, code, out)
        self.assertIn("no swap is open", out)
        code, out = self.local(fleet, "a", "resume", "group/two")
        self.assertIn("this agent has no group two", out)
        code, out = self.local(fleet, "a", "resume", "group/one")
        self.assertEqual((0, True), (code, "serves already" in out), out)

    @unittest.skipUnless(os.geteuid() == 0, "only root can ask as somebody else")
    def test_other_users_are_refused(self):
        fleet = self.make()
        fleet.dir.chmod(0o755)
        (fleet.dir / "a.sock").chmod(0o666)
        tool = fleet.dir / "batonctl"
        shutil.copy(program("batonctl"), tool)  # Where that user may reach it.
        tool.chmod(0o755)
        words = [str(tool), "--agent", f"unix:{fleet.dir}/a.sock", "status"]
        done = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, user=65534, group=65534, cwd="/")
        self.assertEqual(1, done.returncode, done.stdout + done.stderr)
        self.assertIn("break-glass is for root and the agent's own user", done.stderr)

    def test_lost_engine_is_resumed_without_controller(self):
        """Controller and store are gone; an engine dies: its group waits for a ticket that cannot come, until it is resumed here."""
        fleet = self.make()
        traffic = fleet.start_traffic(engines=["two.e0"])
        self.lose_controller(fleet)
        os.kill(fleet.engine_pids()["one.e0"], 9)
        wait_until(lambda: f"one waits for a ticket: {self.status(fleet, 'a')}", lambda: "rejoin ticket" in self.status(fleet, "a")["message"], 60)
        before = self.status(fleet, "a")
        code, out = self.local(fleet, "a", "resume", "group/one", "--reason", "pager 4711")
        self.assertEqual(0, code, out)
        wait_until(lambda: f"one serves: {self.status(fleet, 'a')}", lambda: self.status(fleet, "a")["gateOpen"], 60)
        after = self.status(fleet, "a")
        self.assertEqual(before["committedDigest"], after["committedDigest"])
        self.assertEqual(before["highestTicket"] + 1, after["highestTicket"])
        self.assertEqual("resume", after["operated"])
        self.assertRegex(after["operatedBy"], r"^uid 0 \(pid \d+\), pager 4711$" if os.geteuid() == 0 else "pager 4711")
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1"})

    def test_restore_ends_a_swap_that_hangs(self):
        fleet = self.make()
        fleet.set_fault("one.e0", phase="apply", kind="hang")
        fleet.publish("v2")
        wait_until("one applies", lambda: self.status(fleet, "a")["state"] == "APPLYING", 60)
        fleet.controller.kill()
        code, out = self.local(fleet, "a", "detach", "group/one")
        self.assertEqual(1, code, out)
        self.assertIn("a swap is open", out)
        code, out = self.local(fleet, "a", "restore", "group/one")
        self.assertEqual(0, code, out)
        wait_until(lambda: f"the swap has ended: {self.status(fleet, 'a')}", lambda: not self.status(fleet, "a")["ticketUid"], 60)
        self.assertIn(self.status(fleet, "a")["lastSwap"]["outcome"], ("APPLY_FAILED", "OUT"))
        self.assertEqual(1, self.status(fleet, "a")["committedSeq"])

    def test_detach_leaves_engines_serving(self):
        """Detached through a restart of the agent; nobody drives the group, and it goes on answering; resume attaches again."""
        fleet = self.make()
        traffic = fleet.start_traffic()
        fleet.controller.kill()
        code, out = self.local(fleet, "a", "detach", "group/one")
        self.assertEqual(0, code, out)
        fleet.agents["a"].kill()
        fleet.agents["a"].start()
        wait_until("agent a listens", lambda: self.local(fleet, "a", "status")[0] == 0)
        self.assertEqual((True, "DETACHED"), (self.status(fleet, "a")["detached"], self.status(fleet, "a")["phase"]))
        fleet.controller.start()
        fleet.wait_controller()
        wait_until("the controller hears of it", lambda: "detached" in fleet.group_items().get("one", {}).get("stateMessage", ""))
        code, out = self.local(fleet, "a", "resume", "group/one")
        self.assertEqual(0, code, out)
        fleet.wait_serving(1)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1"})


if __name__ == "__main__":
    unittest.main()
