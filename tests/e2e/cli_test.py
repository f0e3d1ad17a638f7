#!/usr/bin/env python3
"""batonctl as operators and scripts meet it: every kind in every format, watches, exit codes, help and completion."""

import json
import os
import re
import signal
import subprocess
import unittest

import fleet
from fleet import Fleet, program, wait_until

try:
    import yaml
except ImportError:
    yaml = None

KINDS = {"models": "model/m", "versions": "version/m@2", "groups": "group/one", "engines": "engine/one.e0", "agents": "agent/a", "rolls": "roll/m-"}
WATCHED = ("models", "versions", "groups", "rolls")
COMMANDS = ("abandon", "apply", "audit", "certs", "completion", "cordon", "delta", "describe", "detach", "drain", "endpoints", "engine", "events", "get", "hold", "judge", "layout", "pin", "publish", "quarantine", "resume", "restore", "retire", "roll", "rollout", "sleep", "wake")
COMMANDS += ("staleness", "status", "store", "suspend", "uncordon", "unpin", "unquarantine", "wait")


class Cli(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"a": {"one": [1]}, "b": {"two": [2]}}, faults=True)
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        first = cls.fleet.publish("v1", "--optimizer-step", 10)
        cls.fleet.wait_serving(1)
        second = cls.fleet.publish("v2", "--optimizer-step", 20)
        cls.fleet.wait_serving(2)
        cls.fleet.wait_roll(2)
        cls.fleet.wait_labels(2)
        cls.digests = {"v1": first["digest"], "v2": second["digest"]}

    def publish_other(self):
        """A version with other bytes than those that are served now; its seq."""
        served = {g["committedDigest"] for g in self.fleet.group_items().values()}
        return self.fleet.publish(next(v for v, digest in self.digests.items() if digest not in served))["seq"]

    def watching(self, *words):
        """A command that goes on; ended with the test."""
        env = {**os.environ, "BATON_SERVER": self.fleet.server}
        process = subprocess.Popen([program("batonctl"), *words], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def exits(self, code, *words, says="", **options):
        got, out, err = self.fleet.run(*words, **options)
        self.assertEqual(code, got, f"{words}: {out}{err}")
        if says:
            self.assertRegex(out + err, says)
        return out + err


class Get(Cli):
    def first_name(self, kind):
        return self.fleet.ctl("get", kind, "-o", "name").splitlines()[0]

    def test_tables(self):
        for kind in KINDS:
            with self.subTest(kind):
                table, wide = (self.fleet.ctl("get", kind, *more).splitlines() for more in ((), ("-o", "wide")))
                self.assertRegex(table[0], r"^[A-Z][A-Z-]+( +[A-Z][A-Z-]+)+$")
                self.assertGreaterEqual(len(wide[0].split()), len(table[0].split()))
                self.assertGreaterEqual(len(table), 2)
                bare = self.fleet.ctl("get", kind, "--no-headers").splitlines()
                self.assertEqual(len(table) - 1, len(bare))

    def test_names_find_their_objects(self):
        for kind, begin in KINDS.items():
            with self.subTest(kind):
                name = self.first_name(kind)
                self.assertTrue(name.startswith(begin), name)
                item = json.loads(self.fleet.ctl("get", name, "-o", "json"))
                again = json.loads(self.fleet.ctl("get", *name.split("/"), "-o", "json"))
                self.assertEqual(set(item), set(again))
                self.exits(1, "get", kind, "nobody", says=rf"no {kind[:-1]} 'nobody'.*\(NOT_FOUND\)\nhint: `batonctl get {kind}`")

    def test_json_lists(self):
        for kind in KINDS:
            with self.subTest(kind):
                items = self.fleet.get(kind)
                self.assertEqual(len(self.fleet.ctl("get", kind, "-o", "name").splitlines()), len(items))
        for kind in ("versions", "groups", "rolls"):
            self.assertEqual([], self.fleet.get(kind, "-m", "nobody"))
            self.assertEqual(self.fleet.ctl("get", kind, "-o", "name"), self.fleet.ctl("get", kind, "-m", "m", "-o", "name"))
        self.exits(2, "get", "agents", "-m", "m", says="leave --model out")

    def same_in_both_forms(self, *words):
        """What the controller tells may change between the two answers; then both are asked again."""

        def plain(form):
            text = re.sub(r'("?(?:lastSeenAt|ageSeconds)"?: )"[^"]*"', r"\1x", self.fleet.ctl(*words, "-o", form))  # What always moves.
            return json.dumps(yaml.safe_load(text.replace("\t", " ") if form == "json" else text), sort_keys=True, default=str)

        wait_until(lambda: f"{words} say the same: {plain('json')}\n{plain('yaml')}", lambda: plain("json") == plain("yaml"))

    @unittest.skipIf(yaml is None, "python3-yaml is not installed")
    def test_yaml_says_what_json_says(self):
        for kind in KINDS:
            with self.subTest(kind):
                for words in (("get", kind), ("get", self.first_name(kind)), ("describe", self.first_name(kind))):
                    self.same_in_both_forms(*words)
        events = list(yaml.safe_load_all(self.fleet.ctl("events", "-o", "yaml")))
        self.assertEqual([e["number"] for e in self.fleet.events()][: len(events)], [e["number"] for e in events])
        self.assertGreater(len(events), 10)

    def test_describe(self):
        for kind, words in {
            "models": "promotedSeq: .2", "versions": "optimizerStep: .20", "groups": r"(?s)serves +v2.*Phases of the last swap:.*Engine e0:.*Events:",
            "engines": r"(?s)gate +open.*label +2", "agents": "connected: true", "rolls": "state: ROLL_STATE_COMPLETED",
        }.items():
            with self.subTest(kind):
                self.assertRegex(self.fleet.ctl("describe", self.first_name(kind)), words)
        self.exits(1, "describe", "group", "nobody", says="no group 'nobody'")
        self.exits(2, "describe", "group", says="describe what")

    def test_watch(self):
        for kind in WATCHED:
            for form in (), ("-o", "name"), ("-o", "json"):
                with self.subTest(kind, form=form):
                    process = self.watching("get", kind, "-w", *form)
                    self.assertTrue(process.stdout.readline())
        process = self.watching("get", "models", "-w", "-o", "name")
        self.assertEqual("model/m\n", process.stdout.readline())
        self.fleet.ctl("suspend", "model/m", "--reason", "a look")
        self.assertEqual("model/m\n", process.stdout.readline())
        self.fleet.ctl("resume", "model/m")
        self.assertEqual(0, self.fleet.run("get", "groups", "-w", "--timeout", "1s")[0])
        self.exits(2, "get", "agents", "-w", says="cannot be watched")

    def test_events(self):
        numbers = [int(e["number"]) for e in self.fleet.events()]
        self.assertEqual(sorted(set(numbers)), numbers)
        process = self.watching("events", "model/m", "-w")
        seen = [process.stdout.readline()]
        self.fleet.ctl("suspend", "model/m", "--reason", "for the log")
        self.addCleanup(self.fleet.ctl, "resume", "model/m")
        while "for the log" not in seen[-1] and "uspended" not in seen[-1]:
            seen.append(process.stdout.readline())
            self.assertTrue(seen[-1], seen)
        self.assertTrue(all("model/m" in line for line in seen), seen)


class Exits(Cli):
    def test_0_done(self):
        self.exits(0, "wait", "m", "--for=converged", "--timeout", "30s")
        self.exits(0, "wait", "model/m", "--seq", "v2", "--timeout", "30s")
        self.exits(0, "roll", "status", "m", "--timeout", "30s", says="COMPLETED")
        self.exits(0, "rollout", "watch", "roll/m", "--timeout", "30s", says="COMPLETED, 2 of 2 groups done")
        self.exits(0, "roll", "history", "m", says="REASON")
        self.exits(0, "--version", says=r"batonctl \d")

    def test_1_refused(self):
        self.exits(1, "roll", "pause", "m", says="no active roll.*FAILED_PRECONDITION")
        self.exits(1, "roll", "start", "m", "--to", "99", says="99")
        self.exits(1, "wait", "nobody", says="nobody")
        self.exits(1, "wait", "m", "--for=luck", says="luck")
        self.exits(1, "suspend", "model/m", "--expected-revision", "1", says="STALE_REVISION")
        self.exits(1, "apply", "-f", "/nowhere.yaml", says="/nowhere.yaml")

    def test_2_usage(self):
        for words in (
            (), ("frobnicate",), ("get",), ("get", "nonsense"), ("get", "groups", "-o", "xml"), ("get", "groups", "--no-such"), ("publish",), ("publish", "."),
            ("roll", "m"), ("roll", "status"), ("wait",), ("suspend", "group/one"), ("completion", "fish"), ("apply",), ("events", "one"),
            ("wait", "m", "--timeout", "soon"), ("roll", "start", "m", "--to", "newest"),
        ):
            with self.subTest(words):
                self.exits(2, *words, says="hint|Usage|Try|usage")

    def test_3_timeout(self):
        self.exits(3, "wait", "m", "--seq", "99", "--timeout", "300ms")
        os.kill(self.fleet.controller.popen.pid, signal.SIGSTOP)
        try:
            self.exits(3, "get", "models", "--timeout", "500ms")
        finally:
            os.kill(self.fleet.controller.popen.pid, signal.SIGCONT)

    def test_4_unreachable(self):
        (port,) = fleet.free_ports(1)
        self.exits(4, "get", "models", "-s", f"127.0.0.1:{port}", says=rf"127\.0\.0\.1:{port}.*\nhint: .*127\.0\.0\.1:{port}")
        self.exits(4, "publish", fleet.DATA / "v1", "-m", "m", "--agent", "unix:/nowhere.sock", says="baton-agent --config")

    def test_5_degraded(self):
        """A roll that makes no progress says so, and goes on."""
        self.fleet.apply_model(progressDeadline="1s", maxUnavailable="1")
        os.kill(self.fleet.agents["b"].popen.pid, signal.SIGSTOP)
        self.addCleanup(os.kill, self.fleet.agents["b"].popen.pid, signal.SIGCONT)
        seq = self.publish_other()
        self.exits(5, "roll", "status", "m", "--timeout", "60s", says="degraded")
        os.kill(self.fleet.agents["b"].popen.pid, signal.SIGCONT)
        self.fleet.wait_serving(seq)
        self.fleet.apply_model(maxUnavailable="1")
        self.exits(0, "roll", "status", "m", "--timeout", "30s")

    def test_6_cannot_come_true(self):
        self.fleet.ctl("suspend", "model/m")
        try:
            seq = self.publish_other()
            self.exits(6, "wait", "m", "--timeout", "30s", says="will not converge: .*suspend")
        finally:
            self.fleet.ctl("resume", "model/m")
        self.fleet.wait_serving(seq)

    def test_watch_shows_each_group(self):
        self.fleet.set_fault("two.e0", kind="hang", phase="apply")
        self.addCleanup(self.fleet.clear_faults, "two.e0")
        seq = self.publish_other()
        watch, lines = self.watching("roll", "watch", "m", "--timeout", "60s"), []
        while not lines or not re.search(rf"two +\w+ +v\d+ -> v{seq}", lines[-1]):
            lines.append(watch.stdout.readline())
            self.assertTrue(lines[-1], f"it ended before it told of the swap: {lines}")
        self.fleet.clear_faults("two.e0")
        text = "".join(lines) + watch.stdout.read()
        self.assertEqual(0, watch.wait(60), text)
        for words in (rf"roll/m-\d+ to v{seq}: PROGRESSING, [01] of 2 groups done", rf"to v{seq}: COMPLETED, 2 of 2 groups done"):
            self.assertRegex(text, words)

    def test_undone_roll_is_1(self):
        self.fleet.set_fault("two.e0", kind="hang", phase="apply", sticky=True)
        try:
            seq = self.publish_other()
            wait_until("the roll began", lambda: int(self.fleet.get("rolls")[0]["toSeq"]) == seq)
            watch = self.watching("roll", "status", "m", "--timeout", "60s")
            self.assertIn("PROGRESSING", watch.stdout.readline())
            self.fleet.ctl("roll", "undo", "m", "--reason", "a test")
            self.fleet.clear_faults("two.e0")
            out, err = watch.communicate(timeout=60)
            self.assertEqual(1, watch.returncode, out + err)
        finally:
            self.fleet.clear_faults("two.e0")
            wait_until("the undo ended", lambda: self.fleet.get("rolls")[0]["state"] == "ROLL_STATE_COMPLETED", 60)
            self.fleet.ctl("resume", "model/m")


class Help(Cli):
    def test_help(self):
        self.exits(0, "--help", says=r"Exit codes: 0 done, 1 refused or failed, 2 usage, 3 timeout, 4 unreachable, 5 degraded, 6 cannot come true")
        for command in COMMANDS:
            with self.subTest(command):
                text = self.exits(0, command, "--help", says=f"Usage: batonctl {command}")
                self.assertIn("--server", text)
                self.assertIn(f"batonctl {'roll' if command == 'rollout' else command}", text)
                self.assertRegex(self.exits(0, "--help"), rf"\n  {command} ")

    def test_commands_are_all_tested(self):
        listed = re.findall(r"^  ([a-z]+) +[a-z]", self.exits(0, "--help"), re.M)
        self.assertEqual(sorted(COMMANDS), sorted(listed))


class Completion(Cli):
    def complete(self, *words):
        """What bash offers for the last of the words."""
        script = 'source /dev/stdin; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=(); _batonctl; printf "%s\\n" "${COMPREPLY[@]}"'
        env = {**os.environ, "BATON_SERVER": self.fleet.server, "PATH": f"{os.path.dirname(program('batonctl'))}:{os.environ['PATH']}"}
        done = subprocess.run(
            ["bash", "-c", script, "bash", "batonctl", *words], env=env, input=self.fleet.ctl("completion", "bash"), capture_output=True, text=True, check=False, timeout=60
        )
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return set(done.stdout.split())

    def test_syntax(self):
        done = subprocess.run(["bash", "-n"], input=self.fleet.ctl("completion", "bash"), capture_output=True, text=True, check=False)
        self.assertEqual((0, ""), (done.returncode, done.stderr))

    def test_words(self):
        self.assertEqual(set(COMMANDS), self.complete(""))
        self.assertEqual({"roll", "rollout", "restore", "resume", "retire"}, self.complete("r"))
        self.assertLessEqual(set(KINDS), self.complete("get", ""))
        self.assertEqual({"group", "groups"}, self.complete("describe", "gr"))
        self.assertEqual({"one", "two"}, self.complete("describe", "group", ""))
        self.assertEqual({"two"}, self.complete("get", "groups", "t"))
        self.assertEqual({"m"}, self.complete("roll", "undo", ""))
        self.assertEqual({"undo"}, self.complete("roll", "u"))
        self.assertEqual({"model/m"}, self.complete("suspend", ""))
        self.assertEqual({"check"}, self.complete("engine", ""))
        self.assertIn(str(fleet.DATA / "v1"), self.complete("engine", "check", "http://127.0.0.1:8000", "--weights", str(fleet.DATA / "v")))
        self.assertEqual({"m"}, self.complete("wait", ""))
        self.assertEqual({"wide", "json", "yaml", "name"}, self.complete("get", "groups", "-o", ""))
        self.assertLessEqual({"--partial", "--parent", "--optimizer-step"}, self.complete("publish", "--"))
        self.assertIn(str(fleet.DATA / "v1"), self.complete("publish", str(fleet.DATA / "v")))


if __name__ == "__main__":
    unittest.main()
