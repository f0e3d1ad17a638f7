#!/usr/bin/env python3
"""batonctl engine check on engines that no agent drives: guarded, unguarded, wrong token, wrong weights, nobody there."""

import json
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest
import urllib.request

from fleet import DATA, PATIENCE, Fleet, Process, free_ports, program, wait_until

TOKEN = "8e9b5d0c4a31f7e2"


class Engine:
    """A miniengine, started by hand as a new user does it."""

    def __init__(self, case, *words, guarded=True, page=True, model="v1"):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="baton-e2e."))
        case.addClassCleanup(shutil.rmtree, self.dir)
        self.page, self.token = self.dir / "e0.page", self.dir / "e0.token"
        self.token.write_text(TOKEN + "\n")
        self.token.chmod(0o600)
        self.port = free_ports(1)[0]
        self.url = f"http://127.0.0.1:{self.port}"
        env = {**os.environ, "BATON_GUARD_PAGE": str(self.page), "BATON_GUARD_TOKEN_FILE": str(self.token)} if guarded else dict(os.environ)
        argv = [program("miniengine"), "--model", str(DATA / model), "--port", str(self.port), "--served-model-name", "default", *words]
        self.process = Process("engine", argv, self.dir / "engine.log", env)
        case.addClassCleanup(self.process.stop)
        self.process.start()
        wait_until(lambda: f"the engine listens\n{self.process.tail()}", self.listens)

    def listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def call(self, method, path, body=None):
        headers = {"x-baton-token": TOKEN, "Content-Type": "application/json"}
        request = urllib.request.Request(self.url + path, json.dumps(body).encode() if body else None, headers, method=method)
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or b"null")

    def is_paused(self):
        return self.call("GET", "/is_paused")["is_paused"]

    def files(self):
        return ["--guard-page", self.page, "--token-file", self.token]


def check(url, *words):
    """(exit code, stdout, stderr)"""
    argv = [program("batonctl"), "engine", "check", url, *map(str, words)]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=120 * PATIENCE, check=False)
    return done.returncode, done.stdout, done.stderr


class CheckCase(unittest.TestCase):
    def rows(self, code, url, *words):
        """{check: its row} of the JSON answer, and the engine's facts."""
        found, out, err = check(url, *words, "-o", "json")
        self.assertEqual(code, found, out + err)
        said = json.loads(out)
        self.assertEqual(code == 0, said["holds"], out)
        rows = {row["name"]: row for row in said["checks"]}
        self.assertEqual(len(rows), len(said["checks"]), out)
        return rows, said["engine"]

    def verdicts(self, rows):
        return {name: row["verdict"] for name, row in rows.items()}


class Guarded(CheckCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = Engine(cls, "--tensor-parallel-size", "2", "--faults")

    def test_all_is_well(self):
        rows, facts = self.rows(0, self.engine.url, *self.engine.files())
        self.assertEqual(dict.fromkeys(("guard", "token", "page", "way in", "probe", "weights"), "ok"), self.verdicts(rows))
        self.assertIn(str(DATA / "v1"), rows["weights"]["message"], "it names its own directory")
        self.assertEqual((2, "plug-in", "shut", True), (facts["worldSize"], facts["wayIn"], facts["gate"], facts["guarded"]))
        code, out, _ = check(self.engine.url, *self.engine.files())
        self.assertEqual(0, code, out)
        self.assertRegex(out, r"(?m)^way in +plug-in: ")
        self.assertRegex(out, r"(?m)^live swap +can")
        self.assertRegex(out, r"(?m)^ok +guard ")
        self.assertEqual((0, "", ""), check(self.engine.url, *self.engine.files(), "-q"))
        self.assertFalse((DATA / "v1/baton.manifest.json").exists(), "nothing is written beside the user's weights")

    def test_other_weights_are_found(self):
        rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--weights", DATA / "v2")
        self.assertEqual("FAIL", rows["weights"]["verdict"])
        self.assertIn("started on", rows["weights"]["fix"])
        rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--self-update", DATA / "v2")
        self.assertRegex(rows["self-update"]["message"], "not done: .*others")
        rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--weights", self.engine.dir / "none")
        self.assertIn("No such file", rows["weights"]["message"])

    def test_self_update_keeps_the_output(self):
        for _ in range(2):  # A second one is not taken for an agent's.
            rows, facts = self.rows(0, self.engine.url, *self.engine.files(), "--self-update", DATA / "v1")
            self.assertEqual("ok", rows["self-update"]["verdict"])
            self.assertIn("the same output as before", rows["self-update"]["message"])
        self.assertNotEqual("", facts["residentDigest"], "the first one was verified by the engine")
        self.rows(0, self.engine.url, *self.engine.files())

    def test_a_paused_engine_is_not_waited_for(self):
        self.engine.call("POST", "/pause?mode=keep")
        try:
            rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--self-update", DATA / "v1")
        finally:
            self.engine.call("POST", "/resume")
        self.assertRegex(rows["probe"]["message"], "is paused")
        self.assertRegex(rows["self-update"]["message"], "not done")

    def test_self_update_that_fails_is_put_back(self):
        """A rank fails in the middle of the load: all have their old weights, and generation goes on."""
        self.engine.call("POST", "/miniengine/faults", {"kind": "fail", "phase": "apply", "rank": 1, "tensor": 7})
        rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--self-update", DATA / "v1")
        self.assertEqual("FAIL", rows["self-update"]["verdict"])
        self.engine.call("DELETE", "/miniengine/faults")
        self.rows(0, self.engine.url, *self.engine.files())

    def test_an_interrupt_leaves_no_engine_paused(self):
        """SIGINT while the update hangs: it goes to its end, and says so."""
        self.engine.call("POST", "/miniengine/faults", {"kind": "hang", "phase": "apply", "rank": 0, "tensor": 5})
        argv = [program("batonctl"), "engine", "check", self.engine.url, *map(str, self.engine.files()), "--self-update", str(DATA / "v1")]
        with subprocess.Popen(argv, stdout=subprocess.PIPE, text=True) as running:
            try:
                fired = lambda: all(fault["fired"] for fault in self.engine.call("GET", "/miniengine/faults")["faults"])
                wait_until("the update hangs", fired)
                running.send_signal(signal.SIGINT)
            finally:
                self.engine.call("DELETE", "/miniengine/faults")
            out, _ = running.communicate(timeout=120 * PATIENCE)
        self.assertEqual(0, running.returncode, out)
        self.assertRegex(out, r"(?m)^ok +self-update ")
        self.assertFalse(self.engine.is_paused())

    def test_wrong_and_missing_token(self):
        wrong = self.engine.dir / "wrong.token"
        wrong.write_text("0" * 64)
        wrong.chmod(0o600)
        rows, _ = self.rows(7, self.engine.url, "--guard-page", self.engine.page, "--token-file", wrong)
        self.assertEqual(("ok", "FAIL"), (rows["guard"]["verdict"], rows["token"]["verdict"]))
        self.assertIn("BATON_GUARD_TOKEN_FILE", rows["token"]["fix"])
        rows, facts = self.rows(7, self.engine.url)
        self.assertIsNone(facts, "nothing is known of it")
        self.assertRegex(rows["token"]["message"], "no token was given")
        missing = self.engine.dir / "none.token"
        found, out, _ = check(self.engine.url, "--token-file", missing)
        self.assertEqual(7, found, out)
        self.assertFalse(missing.exists(), "a check makes no token")
        wrong.chmod(0o644)
        self.assertIn("0600", check(self.engine.url, "--token-file", wrong)[1])
        self.assertNotIn(TOKEN, check(self.engine.url, *self.engine.files())[1])

    def test_another_page(self):
        other = self.engine.dir / "other.page"
        other.write_bytes(bytes(4096))
        rows, _ = self.rows(7, self.engine.url, "--guard-page", other, "--token-file", self.engine.token)
        self.assertRegex(rows["page"]["message"], "another page")
        missing = self.engine.dir / "none.page"
        self.rows(7, self.engine.url, "--guard-page", missing, "--token-file", self.engine.token)
        self.assertFalse(missing.exists(), "a check makes no page")
        rows, _ = self.rows(0, self.engine.url, "--token-file", self.engine.token)
        self.assertEqual(("warn", "ok"), (rows["page"]["verdict"], rows["weights"]["verdict"]))


class Hanging(CheckCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = Engine(cls, "--faults")

    def test_unknown_weights_stay_paused(self):
        self.engine.call("POST", "/miniengine/faults", {"kind": "hang", "phase": "apply", "rank": 0, "tensor": 5})
        try:
            rows, _ = self.rows(7, self.engine.url, *self.engine.files(), "--self-update", DATA / "v1", "--timeout", f"{round(8 * PATIENCE)}s")
        finally:
            self.engine.call("DELETE", "/miniengine/faults")
        self.assertEqual("FAIL", rows["self-update"]["verdict"])
        self.assertIn("restart the engine", rows["self-update"]["fix"])
        self.assertTrue(self.engine.is_paused())


class Unguarded(CheckCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = Engine(cls, guarded=False)

    def test_it_fails_with_what_to_change(self):
        found, out, _ = check(self.engine.url)
        self.assertEqual(7, found, out)
        self.assertRegex(out, rf"(?m)^FAIL +guard +not guarded: anyone who reaches port {self.engine.port} can swap its weights")
        self.assertIn("--middleware baton.vllm.Guard", out)
        rows, facts = self.rows(7, self.engine.url)
        self.assertEqual({"guard": "FAIL", "way in": "ok", "probe": "ok", "weights": "ok"}, self.verdicts(rows), "the rest is looked at, too")
        self.assertFalse(facts["guarded"])


class WithoutThePlugin(CheckCase):
    @classmethod
    def setUpClass(cls):
        cls.engine = Engine(cls, "--weight-transfer-backend", "none")
        cls.landings = {name: cls.engine.dir / name for name in ("v1", "v2")}
        for name, landing in cls.landings.items():
            shutil.copytree(DATA / name, landing)

    def test_it_falls_back_to_reload(self):
        rows, facts = self.rows(0, self.engine.url, *self.engine.files())
        self.assertEqual(("reload", "warn"), (facts["wayIn"], rows["way in"]["verdict"]))
        self.assertIn("--weight-transfer-config", rows["way in"]["fix"])
        self.assertNotIn("weights", rows, "nothing can be read back")

    def test_self_update_with_other_weights_is_seen(self):
        """Nothing can be read back here: only the output shows it."""
        for name, code, verdict, said in (("v1", 0, "ok", "the same output"), ("v2", 7, "FAIL", "the output changed"), ("v1", 7, "FAIL", "the output changed")):
            with self.subTest(name=name):
                rows, _ = self.rows(code, self.engine.url, *self.engine.files(), "--self-update", self.landings[name])
                self.assertEqual(verdict, rows["self-update"]["verdict"])
                self.assertIn(said, rows["self-update"]["message"])


class Driven(CheckCase):
    """By an agent, in a fleet: a check disturbs nothing, and a self-update is refused."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"node-a": {"g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)

    def test_a_check_disturbs_nothing(self):
        engines = self.fleet.dir / "node-a/engines"
        files = ["--guard-page", engines / "g0.e0.page", "--token-file", engines / "g0.e0.token"]
        before = self.fleet.engine_pids()
        rows, facts = self.rows(0, self.fleet.engines["g0.e0"], *files)
        self.assertEqual(("open", "ok"), (facts["gate"], rows["weights"]["verdict"]))
        rows, _ = self.rows(7, self.fleet.engines["g0.e0"], *files, "--self-update", DATA / "v1")
        self.assertRegex(rows["self-update"]["message"], "not done: an agent drives this engine")
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        rows, _ = self.rows(0, self.fleet.engines["g0.e0"], *files, "--weights", DATA / "v2")
        self.assertEqual("ok", rows["weights"]["verdict"])
        self.assertEqual(before, self.fleet.engine_pids())


class NobodyThere(CheckCase):
    def test_unreachable(self):
        port = free_ports(1)[0]
        found, out, _ = check(f"http://127.0.0.1:{port}")
        self.assertEqual(4, found, out)
        self.assertRegex(out, r"(?m)^FAIL +reach ")

    def test_silent(self):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", free_ports(1)[0]))
            listener.listen()
            found, out, _ = check(f"http://127.0.0.1:{listener.getsockname()[1]}", "--timeout", "1s")
            self.assertEqual(3, found, out)

    def test_words(self):
        for words in ((), ("check",), ("look", "http://127.0.0.1:1"), ("check", "ftp://x"), ("check", "http://127.0.0.1:1", "more")):
            with self.subTest(words):
                done = subprocess.run([program("batonctl"), "engine", *words], capture_output=True, text=True, timeout=60, check=False)
                self.assertEqual(2, done.returncode, done.stderr)


if __name__ == "__main__":
    unittest.main()
