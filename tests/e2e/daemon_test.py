#!/usr/bin/env python3
"""Daemons that cannot start say why in one line; those that run end well, and come back without a failed request."""

import json
import os
import pathlib
import signal
import socket
import sqlite3
import subprocess
import threading
import unittest

from fleet import Fleet, Process, check_answers, program, read_answers, wait_until

TIMES = {"healthInterval": "200ms", "retryFirst": "100ms", "retryMax": "1s"}


def is_running(pid):
    """True unless it is gone or only waits for its parent to notice."""
    try:
        return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start_and_fail(test, *argv):
    """What a daemon that must not start prints; its exit code is 1 and it names itself."""
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60, check=False)
    test.assertEqual(1, done.returncode, done.stderr)
    lines = [line for line in done.stderr.splitlines() if line.startswith(os.path.basename(argv[0]) + ": ")]
    test.assertTrue(1 <= len(lines) <= 2, done.stderr)  # What is wrong, and what to do.
    return done.stderr


class Starts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"a": {"one": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()

    def agent_file(self, **changes):
        """An agent's file of its own; its path."""
        config = self.fleet.agent_config("a")
        landing = {"directory": str(self.fleet.shm / "other"), "budget": "64MiB"}
        config |= {"stateDirectory": str(self.fleet.dir / "other"), "socket": f"unix:{self.fleet.dir}/other.sock", "landing": landing}
        path = self.fleet.dir / "other.yaml"
        path.write_text(json.dumps(config | changes))
        return path

    def bad_file(self, daemon, text):
        path = self.fleet.dir / "bad.yaml"
        path.write_text(text)
        return start_and_fail(self, program(daemon), "--config", str(path))

    def test_port_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            address = f"127.0.0.1:{taken.getsockname()[1]}"
            error = start_and_fail(self, program("baton-controller"), "--listen", address, "--store", "memory:")
        self.assertIn(address, error)
        self.assertIn("another process has it", error)

    def test_quota_above_the_bound(self):
        self.assertIn("limits.groups: 99999 is above 16384", self.bad_file("baton-controller", "limits: {groups: 99999}\n"))
        self.assertIn("limits.openVersionKept", self.bad_file("baton-controller", "limits: {openVersionKept: soon}\n"))

    def test_socket_taken(self):
        path = self.agent_file(socket=f"unix:{self.fleet.dir}/a.sock", versions={"directory": str(self.fleet.dir / "other-versions")})
        self.assertRegex(start_and_fail(self, program("baton-agent"), "--config", str(path)), r"a\.sock")

    def test_unreadable_config(self):
        for daemon in ("baton-controller", "baton-agent"):
            self.assertRegex(start_and_fail(self, program(daemon), "--config", "/nowhere/x.yaml"), "/nowhere/x.yaml")
            self.assertRegex(self.bad_file(daemon, "listen: [\n"), r"bad\.yaml:\d+")

    def test_wrong_key_or_value_names_its_line(self):
        self.assertRegex(self.bad_file("baton-controller", "store: 'memory:'\nlogLevl: info\n"), r"bad\.yaml:2: .*logLevl")
        self.assertRegex(self.bad_file("baton-controller", "logLevel: loud\n"), "logLevel: 'loud' is unknown; write error, warn, info or debug")
        text = "name: a\ncontroller: 127.0.0.1:1\nstateDirectory: /x/s\nlanding: {directory: /x/l, budget: lots}\nversions: {directory: /x/v}\n"
        self.assertRegex(self.bad_file("baton-agent", text), r"bad\.yaml.*landing\.budget")
        self.assertRegex(self.bad_file("baton-agent", text.replace("lots", "64MiB") + "groups:\n  - name: g0\n    modle: m\n"), r"bad\.yaml:8: .*modle")

    def test_unknown_engine_kind_and_times(self):
        groups = [{"name": "g", "model": "m", "engines": [{"name": "e", "kind": "tgi", "url": "http://127.0.0.1:1"}]}]
        error = start_and_fail(self, program("baton-agent"), "--config", str(self.agent_file(groups=groups)))
        self.assertRegex(error, r"groups\[0\]\.engines\[0\]\.kind")
        error = start_and_fail(self, program("baton-agent"), "--config", str(self.agent_file(times={"engineLost": "soon"})))
        self.assertIn("engineLost", error)

    def test_second_start_names_the_first(self):
        controller = start_and_fail(self, program("baton-controller"), "--listen", "127.0.0.1:0", "--store", f"sqlite:{self.fleet.dir}/controller.db")
        self.assertRegex(controller, rf"in use by process {self.fleet.controller.popen.pid}\b")
        path = self.agent_file(stateDirectory=str(self.fleet.dir / "a"))
        self.assertRegex(start_and_fail(self, program("baton-agent"), "--config", str(path)), rf"\b{self.fleet.agents['a'].popen.pid}\b")

    def test_state_of_another_version(self):
        database = self.fleet.dir / "newer.db"
        words = (program("baton-controller"), "--listen", "127.0.0.1:0", "--store", f"sqlite:{database}")
        with sqlite3.connect(database) as db:
            db.execute("create table x (y)")
        self.assertRegex(start_and_fail(self, *words), r"newer\.db is not a Baton store")
        database.unlink()
        first = Process("controller", words, self.fleet.dir / "newer.log").start()
        wait_until("it listens", lambda: "listening" in first.tail())
        self.assertEqual(0, first.stop())
        with sqlite3.connect(database) as db:
            db.execute("pragma user_version = 999")
        self.assertRegex(start_and_fail(self, *words), "999")
        state = self.fleet.dir / "other"
        state.mkdir(exist_ok=True)
        (state / "format").write_text("baton-agent 999\n")
        self.assertRegex(start_and_fail(self, program("baton-agent"), "--config", str(self.agent_file())), "format.*999|999.*format")

    def test_unknown_policy_words(self):
        for key, word in {
            "trigger": "Sometimes", "strategy": "Canary", "inFlight": "drop", "kv": "melt", "arrivals": "queue", "maxUnavailable": "none", "swapDeadline": "soon",
        }.items():
            with self.subTest(key):
                path = self.fleet.dir / "model.yaml"
                path.write_text(json.dumps({"kind": "Model", "metadata": {"name": "m"}, "spec": {"update": {key: word}}}))
                code, _, error = self.fleet.run("apply", "-f", path)
                self.assertEqual(1, code, error)
                self.assertIn(key, error)
                self.assertIn(word, error)
        path.write_text("kind: Model\nmetadata:\n  name: m\nspec:\n  update:\n    surge: {}\n")
        self.assertRegex(self.fleet.run("apply", "-f", path)[2], r"model\.yaml:6: .*surge")


class Lives(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet({"a": {"one": [1], "two": [2]}, "b": {"three": [1]}}, faults=True, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.names = {1: "v1"}

    def publish(self, version, **options):
        seq = self.fleet.publish(version, **options)["seq"]
        self.names[seq] = version
        return seq

    def check(self, traffic, tolerated=()):
        """No request failed but those of the engines named; answers are pure."""
        traffic.stop(70)
        answers = read_answers(traffic)
        bad = [a for a in answers if a["status"] != 200 and a["engine"] not in tolerated]
        self.assertEqual([], bad[:3], f"{len(bad)} of {len(answers)}")
        check_answers(answers, self.names)

    def more_answers(self, traffic, count=30):
        size = len(read_answers(traffic))
        wait_until("more answers", lambda: len(read_answers(traffic)) > size + count)

    def test_engines_survive_the_agent(self):
        """Whether it is told to stop or killed: engines serve on, the same processes, and no request fails."""
        traffic, pids = self.fleet.start_traffic(), self.fleet.engine_pids()
        for end in (lambda: self.assertEqual(0, self.fleet.agents["a"].stop()), self.fleet.agents["a"].kill):
            end()
            self.more_answers(traffic)
            wait_until("AGENT_UNKNOWN or not connected", lambda: not all(x.get("connected") for x in self.fleet.get("agents")))
            self.fleet.agents["a"].start()
            wait_until("connected", lambda: all(x.get("connected") for x in self.fleet.get("agents")))
            self.more_answers(traffic)
        seq = self.publish("v2", agent="b")
        self.fleet.wait_serving(seq)
        self.assertEqual(pids, self.fleet.engine_pids())
        self.check(traffic)

    def test_agent_is_told_to_stop_during_a_swap(self):
        """It ends the swap first: the journal has an outcome, the gate is open on one of the two versions."""
        traffic = self.fleet.start_traffic()
        self.fleet.set_fault("two.e0", kind="hang", phase="apply")
        seq = self.publish("v2", agent="b")
        wait_until("two applies", lambda: self.fleet.group_items()["two"]["state"] == "GROUP_STATE_APPLYING")
        self.fleet.agents["a"].popen.terminate()
        self.fleet.clear_faults("two.e0")
        self.assertEqual(0, self.fleet.agents["a"].stop(60))
        self.assertIn("SwapEnded", self.fleet.agents["a"].tail(60))
        self.fleet.agents["a"].start()
        self.fleet.wait_serving(seq)
        self.check(traffic)

    def test_controller_restarts_in_a_roll(self):
        """A swap that runs ends by itself, and the roll goes on from the store."""
        traffic = self.fleet.start_traffic()
        for version, end in (("v2", self.fleet.controller.kill), ("v1", lambda: self.assertEqual(0, self.fleet.controller.stop()))):
            self.fleet.set_fault("one.e0", kind="hang", phase="apply")
            seq = self.publish(version)
            wait_until("a swap runs", lambda: self.fleet.group_items()["one"]["state"] == "GROUP_STATE_APPLYING")
            end()
            self.fleet.clear_faults("one.e0")
            self.fleet.controller.start()
            self.fleet.wait_controller()
            self.fleet.wait_serving(seq)
            self.fleet.wait_roll(seq)
            self.assertEqual(1, sum(int(r["toSeq"]) == seq for r in self.fleet.get("rolls")))
        self.check(traffic)

    def test_engine_is_killed(self):
        """Rank 0, then rank 1: out at once, recreated, back at the target; the others do not notice."""
        traffic = self.fleet.start_traffic()
        for rank in (0, 1):
            before = self.fleet.engine_pids()["two.e0"]
            wait_until("both ranks are there", lambda x=before: len(self.fleet.session_pids(x)) == 2)
            pids = self.fleet.session_pids(before)
            os.kill(pids[rank], signal.SIGKILL)
            wait_until(lambda: f"a new process\n{self.fleet.tails()}", lambda: self.fleet.engine_pids().get("two.e0", before) != before)
            self.fleet.wait_serving(1)
            self.more_answers(traffic)
        recreates = lambda: next(e for e in self.fleet.get("engines") if e["group"] == "two").get("recreates", 0)
        wait_until(lambda: f"two recreations are told of, not {recreates()}", lambda: recreates() >= 2)
        self.check(traffic, tolerated=("two.e0",))

    def test_stop_engines(self):
        """Without --stop-engines, SIGTERM leaves the engines alone; with it, they end too."""
        agent = self.fleet.agents["b"]
        self.assertEqual(0, agent.stop())
        leader = self.fleet.engine_pids()["three.e0"]
        self.assertTrue(is_running(leader))
        stopping = Process("b", [*agent.argv, "--stop-engines"], agent.log)
        wait_until("not connected", lambda: not all(x.get("connected") for x in self.fleet.get("agents")))
        self.fleet.agents["b"] = stopping.start()
        wait_until("connected", lambda: all(x.get("connected") for x in self.fleet.get("agents")))
        self.fleet.wait_serving(1)
        self.assertEqual(0, stopping.stop())
        self.assertFalse(is_running(leader))

    def test_controller_ends_waits(self):
        """A command that waits gets an answer when the controller stops, and does not hang."""
        self.fleet.ctl("suspend", "model/m")
        codes = []
        thread = threading.Thread(target=lambda: codes.append(self.fleet.run("wait", "m", "--seq", "99", "--timeout", "60s")[0]))
        thread.start()
        watch = subprocess.Popen([program("batonctl"), "get", "groups", "-w", "-s", self.fleet.server], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(watch.kill)
        self.assertTrue(watch.stdout.readline())
        self.assertEqual(0, self.fleet.controller.stop())
        thread.join(30)
        watch.communicate(timeout=30)
        self.assertNotIn(0, [*codes, watch.returncode])
        self.assertEqual(1, len(codes))


if __name__ == "__main__":
    unittest.main()
