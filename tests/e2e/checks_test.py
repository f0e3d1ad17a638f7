#!/usr/bin/env python3
"""Checks of a version's values (not finite, exploded, the same again), and of metrics that a Prometheus has."""

import http.server
import json
import os
import pathlib
import shutil
import sys
import threading
import time
import unittest
import urllib.parse
import urllib.request

import checkpoints
from fleet import BUILD, DATA, EXPECTED, ROOT, Fleet, Process, free_ports, program, wait_until

os.environ.setdefault("BATON_LIB", str(BUILD / "api/client/libbaton.so"))
sys.path.insert(0, str(ROOT / "api/python"))

import baton  # noqa: E402

NORM = "model.norm.weight"
CHECK = {"name": "delta", "kind": "Change", "maxChange": 0.5, "minChanged": 1}
STEP = {"groups": "1", "checks": ["delta"]}


def with_norm(target, change):
    """v1 with other bytes in its last norm (BF16)."""
    checkpoints.copy_of("v1", target)
    tensors = checkpoints.tensors_of(target)
    dtype, shape, raw = tensors[NORM]
    assert dtype == "BF16"
    tensors[NORM] = (dtype, shape, change(raw))
    checkpoints.write_tensors(target, tensors)
    return target


class Values(unittest.TestCase):
    """One fleet for all tests of the class; they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"a": {"g0": [1], "g1": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)

    def stored(self):
        return sorted(p.name for p in (self.fleet.dir / "versions").rglob("*") if p.is_dir())

    def version(self, seq):
        return next(v for v in self.fleet.get("versions") if int(v.get("seq", 0)) == seq)

    def wait_check(self, seq, state):
        """Until the roll to 'seq' has a verdict on its check; the check."""

        def found():
            rolls = [r for r in self.fleet.get("rolls") if int(r["toSeq"]) == seq and r.get("checks")]
            return rolls and rolls[0]["checks"][0]["verdict"] == f"CHECK_VERDICT_{state}" and rolls[0]["checks"][0]

        return wait_until(lambda: f"the check of v{seq} is {state}: {self.fleet.get('rolls')}\n{self.fleet.tails()}", found, 60)

    def test_1_nan_and_infinity_are_refused_by_name(self):
        bad = with_norm(self.fleet.dir / "nan", lambda raw: b"\xc0\x7f\x80\xff" + raw[4:])
        before = self.stored()
        code, out, err = self.fleet.run("publish", bad, "--model", "m")
        self.assertEqual((1, ""), (code, out))
        self.assertRegex(err, rf"tensor '{NORM}': NaN or infinity; 1 NaN and 1 infinite in 1 tensors.*\(FAILED_PRECONDITION, NON_FINITE\)")
        self.assertEqual(before, self.stored(), "what was refused was left behind")
        self.assertEqual([1], [int(v["seq"]) for v in self.fleet.get("versions") if int(v.get("seq", 0)) > 0])

    def test_2_the_same_weights_again(self):
        self.fleet.apply_model(maxUnavailable="1", canary=[STEP], checks=[CHECK])
        seq = int(self.fleet.publish("v1")["seq"])
        check = self.wait_check(seq, "FAILED")
        self.assertRegex(check["message"], rf"0 of \d+ tensors differ from version {seq - 1}, at least 1 must")
        self.fleet.ctl("roll", "abort", "model/m", "--reason", "nothing was trained")
        self.fleet.ctl("resume", "model/m")

    def test_3_a_small_change_passes_and_is_recorded(self):
        def small(raw):
            return bytes([raw[0] ^ 1]) + raw[1:]

        seq = int(self.fleet.publish(str(with_norm(self.fleet.dir / "small", small)))["seq"])
        self.fleet.wait_serving(seq)
        values = self.version(seq)["values"]
        self.assertEqual((True, 1), (values["compared"], int(values["changed"])))
        self.assertEqual(NORM, values["largest"][0]["name"])
        self.assertTrue(0 < values["largest"][0]["change"] < 0.5, values)
        self.assertNotIn("nans", values)
        shown = self.fleet.ctl("describe", "version", f"m@{seq}")
        self.assertIn("unchanged:", shown)

    def test_4_an_exploded_tensor_is_named(self):
        seq = int(self.fleet.publish(str(with_norm(self.fleet.dir / "huge", lambda raw: b"\x00\x50" * 2 + raw[4:])))["seq"])
        check = self.wait_check(seq, "FAILED")
        self.assertIn(NORM, check["message"])
        self.assertGreater(check["value"], 1000)
        blocked = lambda: {g.get("blockedReason") for g in self.fleet.group_items().values()}
        wait_until(lambda: f"a group waits for it: {blocked()}", lambda: "BLOCKED_REASON_CHECK_FAILED" in blocked())


class References(unittest.TestCase):
    """What the trainer says that engines should answer, as numbers of another implementation (tests/data)."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"a": {"g0": [1], "g1": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)
        cls.fleet.apply_model(maxUnavailable="1", canary=[{"groups": "1", "checks": ["same"]}], checks=[{"name": "same", "kind": "Probe", "tolerance": 0.01}])

    def directory(self, name, version, says, tolerance=0.01):
        target = checkpoints.copy_of(version, self.fleet.dir / name)
        prompt = EXPECTED["prompts"]["baton"]
        want = EXPECTED["versions"][says]["baton"]["logprobs"][:8]
        found = {"prompt": list(prompt.encode()), "logprobs": want, "tolerance": tolerance}
        (target / "baton.references.json").write_text(json.dumps({"references": [found]}))
        return str(target)

    def test_1_that_hold(self):
        seq = int(self.fleet.publish(self.directory("right", "v2", "v2"))["seq"])
        self.fleet.wait_serving(seq)
        swap = self.fleet.group_items()["g1"]["lastSwap"]
        self.assertEqual((1, 0), (swap["references"], swap.get("referencesMissed", 0)))
        self.assertIn("1 of 1 held", self.fleet.ctl("describe", "group", "g1"))

    def test_2_that_are_missed(self):
        seq = int(self.fleet.publish(self.directory("wrong", "v1", "v2"))["seq"])
        found = lambda: self.fleet.get("rolls")[0].get("checks", [{}])[0]
        wait_until(lambda: f"the check failed: {self.fleet.get('rolls')[0]}", lambda: found().get("verdict") == "CHECK_VERDICT_FAILED")
        self.assertRegex(found()["message"], r"group g\d: reference 0, token \d: log-probability -\d")
        serving = {int(g["committedSeq"]) for g in self.fleet.group_items().values()}
        self.assertEqual({seq - 1, seq}, serving, "a missed reference stops the roll, not the swap")
        self.fleet.ctl("roll", "abort", "model/m", "--reason", "wrong answers")
        self.fleet.ctl("resume", "model/m")

    def test_3_that_are_no_references(self):
        target = checkpoints.copy_of("v2", self.fleet.dir / "bad")
        (target / "baton.references.json").write_text('{"references": [{"prompt": [1], "logprobs": [0.5], "tolerance": 1}]}')
        code, _, err = self.fleet.run("publish", target, "--model", "m")
        self.assertEqual(1, code)
        self.assertRegex(err, r"baton\.references\.json: references\[0\]\.logprobs")

    def test_4_from_a_publisher(self):
        publisher = baton.Publisher("m", agent=f"unix:{self.fleet.dir}/a.sock")
        tensors = checkpoints.tensors_of(DATA / "v2")
        said = json.loads(pathlib.Path(self.directory("said", "v2", "v2"), "baton.references.json").read_text())["references"]
        version = publisher.publish(tensors, references=said * 2)
        self.fleet.wait_serving(version.seq)
        self.assertEqual(2, self.fleet.group_items()["g0"]["lastSwap"]["references"])
        with self.assertRaisesRegex(baton.InvalidArgument, r"references\[0\]\.prompt"):
            publisher.publish(tensors, references=[{**said[0], "prompt": []}])

    def test_5_that_a_partial_version_does_not_inherit(self):
        whole = self.directory("again", "v2", "v2")
        self.fleet.wait_serving(int(self.fleet.publish(whole)["seq"]))
        part = self.fleet.dir / "part"
        name, tensor = next(iter(checkpoints.tensors_of(DATA / "v3").items()))
        checkpoints.write_tensors(part, {name: tensor})
        self.fleet.apply_model(maxUnavailable="1")
        seq = int(self.fleet.publish(str(part), "--partial")["seq"])
        self.fleet.wait_serving(seq)
        self.assertNotIn("references", self.fleet.group_items()["g0"]["lastSwap"])


class Served(http.server.ThreadingHTTPServer):
    """A small HTTP server whose answers 'answer(path)' gives: (code, body)."""

    daemon_threads = True

    def __init__(self, port=0):
        served = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                code, body = served.answer(self.path)
                self.send_response(code)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                try:
                    self.wfile.write(body.encode())
                except OSError:
                    pass

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def answer(self, path):
        raise NotImplementedError

    def close(self):
        self.shutdown()
        self.server_close()


class Exporter(Served):
    """What Prometheus scrapes."""

    latency = 0.5

    def answer(self, path):
        return 200, f'latency_seconds{{model="m",group="g0"}} {self.latency}\nlatency_seconds{{model="m",group="g1"}} 0.1\n'


class Spoilt(Served):
    """Speaks the query API, or something else."""

    def __init__(self, port=0):
        self.mode, self.queries, self.release = "0.5", [], threading.Event()
        super().__init__(port)

    def answer(self, path):
        self.queries.append(urllib.parse.parse_qs(urllib.parse.urlsplit(path).query)["query"][0])
        if self.mode == "hang":
            self.release.wait(60)
        if self.mode == "gateway":
            return 502, "<html>Bad gateway</html>"
        if self.mode == "long":
            return 200, "x" * (1 << 20)
        if self.mode == "error":
            return 422, json.dumps({"status": "error", "errorType": "execution", "error": "query timed out"})
        return 200, json.dumps({"status": "success", "data": {"resultType": "scalar", "result": [time.time(), self.mode]}})

    def close(self):
        self.release.set()
        super().close()


PROMETHEUS_S = 1


class MetricFleet(Fleet):
    """Its controller asks the Prometheus of 'url' five times a second."""

    def __init__(self, url):
        self.prometheus = url
        super().__init__({"a": {"g0": [1], "g1": [1]}})

    def controller_argv(self):
        config = {"listen": [self.server], "store": f"sqlite:{self.dir}/controller.db"}
        config["prometheus"] = {"url": self.prometheus, "interval": "200ms", "deadline": f"{PROMETHEUS_S}s"}
        (self.dir / "controller.yaml").write_text(json.dumps(config))
        return [program("baton-controller"), "--config", str(self.dir / "controller.yaml")]

    def begin(self, query, window="500ms"):
        check = {"name": "fast", "kind": "Metric", "compare": "<", "threshold": 1, "window": window, "query": query}
        self.apply_model(maxUnavailable="1", canary=[{"groups": "1", "checks": ["fast"]}], checks=[check])

    def check(self):
        checks = self.get("rolls")[0].get("checks")
        return checks[0] if checks else {}

    def wait_said(self, text):
        wait_until(lambda: f"the check says '{text}': {self.get('rolls')[0]}\n{self.tails()}", lambda: text in self.check().get("message", ""))


class Metrics(unittest.TestCase):
    def fleet_of(self, url):
        fleet = MetricFleet(url)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def answers_meanwhile(self, fleet, spoilt):
        """True if the controller answered within the deadline of a query that had just come and hangs; a busy machine may be too slow for that."""
        before = len(spoilt.queries)
        wait_until("another query", lambda: len(spoilt.queries) > before, every=0.005)
        began = time.monotonic()
        fleet.get("models")
        return time.monotonic() - began < 0.9 * PROMETHEUS_S

    def test_no_verdict_while_nobody_answers_well(self):
        """Each fault is shown in words, the controller goes on meanwhile, and the first good answers let the roll go on."""
        spoilt = Spoilt()
        self.addCleanup(spoilt.close)
        fleet = self.fleet_of(f"http://127.0.0.1:{spoilt.server_address[1]}/prefix")
        fleet.begin('max(x{model="$model",v="$seq"}) + 1')
        spoilt.mode = "hang"
        fleet.publish("v2")
        fleet.wait_said("no verdict yet: Prometheus cannot be asked: no answer within the deadline")
        wait_until("the controller answers while it waits for Prometheus", lambda: self.answers_meanwhile(fleet, spoilt))
        spoilt.release.set()
        for mode, says in (("gateway", "502 without JSON"), ("error", "query timed out"), ("long", "longer than"), ("NaN", "gave NaN")):
            with self.subTest(mode):
                spoilt.mode = mode
                fleet.wait_said(says)
        self.assertEqual({'max(x{model="m",v="2"}) + 1'}, set(spoilt.queries))
        groups = fleet.group_items()
        self.assertEqual({1, 2}, {int(g["committedSeq"]) for g in groups.values()})
        self.assertIn("BLOCKED_REASON_CHECK_PENDING", {g.get("blockedReason") for g in groups.values()})
        waiting = next(name for name, g in groups.items() if int(g["committedSeq"]) == 1)
        self.assertIn("gave NaN", fleet.ctl("describe", "group", waiting))
        spoilt.mode = "0.5"
        fleet.wait_serving(2)

    def test_nobody_is_there(self):
        fleet = self.fleet_of(f"http://127.0.0.1:{free_ports(1)[0]}")
        fleet.begin("up")
        fleet.publish("v2")
        fleet.wait_said("Prometheus cannot be asked:")
        fleet.controller.stop()
        fleet.controller.start()
        fleet.wait_controller()
        fleet.ctl("roll", "promote", "model/m", "--reason", "Prometheus is away")
        fleet.wait_serving(2)

    @unittest.skipUnless(shutil.which("prometheus"), "there is no prometheus on the PATH (Debian package prometheus)")
    def test_a_real_prometheus(self):
        exporter = Exporter()
        self.addCleanup(exporter.close)
        port = free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        fleet = self.fleet_of(url)
        scrape = {"job_name": "engines", "static_configs": [{"targets": [f"127.0.0.1:{exporter.server_address[1]}"]}]}
        config = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [scrape]}
        (fleet.dir / "prometheus.yml").write_text(json.dumps(config))
        argv = ["prometheus", f"--config.file={fleet.dir}/prometheus.yml", f"--storage.tsdb.path={fleet.dir}/tsdb", f"--web.listen-address=127.0.0.1:{port}"]
        process = Process("prometheus", argv, fleet.dir / "prometheus.log", env=dict(os.environ))
        fleet.extra.append(process)
        process.start()
        query = 'max(latency_seconds{model="$model"})'
        wait_until(lambda: f"Prometheus has the metric\n{process.tail()}", lambda: self.has_metric(url))
        fleet.begin("latency_seconds")
        fleet.publish("v2")
        fleet.wait_said("2 samples, not one: aggregate them")
        fleet.begin("max(latency_seconds")
        fleet.wait_said("parse error")
        fleet.begin(query)
        fleet.wait_serving(2)
        exporter.latency = 3
        wait_until("Prometheus scraped the bad number", lambda: self.has_metric(url, " == 3"))
        fleet.publish("v1")
        fleet.wait_said("3, wanted < 1")
        self.assertEqual("CHECK_VERDICT_FAILED", fleet.check()["verdict"])
        exporter.latency = 0.2
        time.sleep(1.5)
        self.assertEqual("CHECK_VERDICT_FAILED", fleet.check()["verdict"], "it recovered by itself")

    @staticmethod
    def has_metric(url, more=""):
        query = urllib.parse.quote("max(latency_seconds)" + more)
        try:
            with urllib.request.urlopen(f"{url}/api/v1/query?query={query}", timeout=2) as answer:
                return bool(json.load(answer)["data"]["result"])
        except OSError:
            return False


if __name__ == "__main__":
    unittest.main()
