#!/usr/bin/env python3
"""The metrics of controller and agent, as Prometheus has them: its own linter, its own parser, and one that scrapes."""

import json
import os
import re
import shutil
import subprocess
import unittest
import urllib.error
import urllib.parse
import urllib.request

from fleet import PATIENCE, ROOT, Process, free_ports, program, wait_until
from security_test import SecureFleet

PROMETHEUS = ROOT / "deploy/prometheus"
RUNBOOKS = ROOT / "deploy/docs/runbooks"
SAMPLE = re.compile(r'^(\w+)(?:\{(.*)\})? (\S+)$')
OPENMETRICS = "application/openmetrics-text; version=1.0.0"


class MeasuredFleet(SecureFleet):
    def controller_argv(self):
        self.ports = dict(zip(("controller", "node-a", "prometheus"), free_ports(3)))
        self.SETTINGS = {"metrics": {"listen": f"127.0.0.1:{self.ports['controller']}"}}
        return super().controller_argv()

    def agent_config(self, name):
        return {**super().agent_config(name), "metrics": {"listen": f"127.0.0.1:{self.ports[name]}"}}

    def page(self, who, accept="text/plain"):
        request = urllib.request.Request(f"http://127.0.0.1:{self.ports[who]}/metrics", headers={"Accept": accept})
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.headers["Content-Type"], answer.read().decode()

    def samples(self, who):
        """{"name{labels}": value}"""
        found = [SAMPLE.match(line) for line in self.page(who)[1].splitlines() if not line.startswith("#")]
        return {f"{m[1]}{{{m[2]}}}" if m[2] else m[1]: float(m[3]) for m in found}


class Metrics(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = MeasuredFleet({"node-a": {"node-a-g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()

    def test_what_happened_is_counted(self):
        before = self.fleet.samples("controller")
        self.fleet.run("cordon", "group/node-a-g0", who="vic")
        self.fleet.ctl("suspend", "model/m")
        self.fleet.ctl("resume", "model/m")
        calls = lambda method, code, of: of.get(f'baton_controller_calls_total{{method="baton.v1.{method}",code="{code}"}}', 0)
        wait_until("the calls ended", lambda: calls("Models/Resume", "OK", self.fleet.samples("controller")) > 0)
        after = self.fleet.samples("controller")
        for method, code in (("Models/Suspend", "OK"), ("Fleet/Cordon", "PERMISSION_DENIED")):
            self.assertEqual(calls(method, code, before) + 1, calls(method, code, after), method)
        refused = 'baton_controller_refusals_total{code="PERMISSION_DENIED"}'
        self.assertEqual(before.get(refused, 0) + 1, after[refused])
        writes = "baton_controller_store_write_duration_seconds_count"
        self.assertGreater(after[writes], before[writes])
        self.assertEqual(after[writes], after['baton_controller_store_write_duration_seconds_bucket{le="+Inf"}'])
        self.assertEqual(1, after["baton_controller_leader"])
        self.assertGreater(after["baton_controller_epoch"], 0)

    def test_ends_of_certificates_are_those_of_the_files(self):
        for who, files in (("controller", ("controller.crt", "ca.crt")), ("node-a", ("node-a.crt", "ca.crt"))):
            samples = self.fleet.samples(who)
            for name in files:
                path = self.fleet.pki / name
                said = subprocess.run(["openssl", "x509", "-enddate", "-noout", "-dateopt", "iso_8601", "-in", path], capture_output=True, text=True, check=True)
                day = said.stdout.split("=")[1].split()[0]
                value = samples[f'baton_certificate_expiration_timestamp_seconds{{file="{path}"}}']
                seconds = subprocess.run(["date", "-u", "-d", f"@{value:.0f}", "+%F"], capture_output=True, text=True, check=True)
                self.assertEqual(day, seconds.stdout.strip(), name)

    def test_versions_are_told(self):
        for who, daemon in (("controller", "controller"), ("node-a", "agent")):
            (name,) = [n for n in self.fleet.samples(who) if n.startswith("baton_build_info")]
            self.assertIn(f'daemon="{daemon}"', name)

    def test_only_get_and_only_that_page(self):
        url = f"http://127.0.0.1:{self.fleet.ports['controller']}"
        for path, data, code in (("/", None, 404), ("/metrics", b"x", 405)):
            with self.assertRaises(urllib.error.HTTPError) as caught:
                urllib.request.urlopen(url + path, data, timeout=30)
            self.assertEqual(code, caught.exception.code)

    def test_a_taken_address_is_said_at_the_start(self):
        config = json.loads((self.fleet.dir / "controller.yaml").read_text())
        config.update(listen=["127.0.0.1:0"], store="memory:")
        (self.fleet.dir / "second.yaml").write_text(json.dumps(config))
        done = subprocess.run([self.fleet.controller.argv[0], "--config", self.fleet.dir / "second.yaml"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn(f"metrics.listen 127.0.0.1:{self.fleet.ports['controller']}: another process has it", done.stderr)

    # --- alerts, and the dashboard for Grafana ---

    def families(self):
        """Names of all samples that a controller may show; of an empty family those that its type has."""
        names = set()
        for name, kind in re.findall(r"^# TYPE (\w+) (\w+)$", self.fleet.page("controller")[1], re.M):
            names |= {f"{name}_{part}" for part in ("bucket", "sum", "count")} if kind == "histogram" else {name}
        return names

    def test_alerts_and_panels_name_metrics_that_there_are(self):
        there = self.families()
        for name in ("rules.yaml", "rules_test.yaml", "grafana.json"):
            used = set(re.findall(r"\bbaton_\w+", (PROMETHEUS / name).read_text()))
            self.assertTrue(used, name)
            self.assertEqual(set(), used - there, name)
        documented = (ROOT / "deploy/docs/metrics.md").read_text()
        for name in re.findall(r"^# TYPE (\w+) \w+$", self.fleet.page("controller")[1], re.M):
            self.assertRegex(documented, rf"`{name}[`{{]", "deploy/docs/metrics.md")

    def test_each_alert_has_a_runbook_whose_commands_exist(self):
        rules = (PROMETHEUS / "rules.yaml").read_text()
        alerts = re.findall(r"alert: (\w+)", rules)
        self.assertEqual({f"{alert}.md" for alert in alerts}, {path.name for path in RUNBOOKS.iterdir()})
        tests = (PROMETHEUS / "rules_test.yaml").read_text()
        for alert in alerts:
            self.assertIn(f"runbook_url: deploy/docs/runbooks/{alert}.md", rules)
            for kind in ("fires", "is quiet"):
                self.assertIn(f"- name: {alert} {kind}", tests)
            page = (RUNBOOKS / f"{alert}.md").read_text()
            for target in re.findall(r"\]\(([\w./-]+)\)", page):
                self.assertTrue((RUNBOOKS / target).exists(), f"{alert}: {target}")
            for command in re.findall(r"`batonctl ([a-z]+)", page):
                done = subprocess.run([program("batonctl"), command, "--help"], capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
                self.assertEqual(0, done.returncode, f"{alert}: {command}: {done.stderr}")

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool on the PATH (Debian package prometheus)")
    def test_each_alert_fires_where_it_should_and_only_there(self):
        for words in (("check", "rules", "rules.yaml"), ("test", "rules", "rules_test.yaml")):
            done = subprocess.run(["promtool", *words], cwd=PROMETHEUS, capture_output=True, text=True, timeout=120 * PATIENCE, check=False)
            self.assertEqual(0, done.returncode, done.stdout + done.stderr)

    # --- as Prometheus sees it ---

    @unittest.skipUnless(shutil.which("promtool"), "there is no promtool on the PATH (Debian package prometheus)")
    def test_the_linter_of_prometheus_finds_nothing(self):
        for who in ("controller", "node-a"):
            kind, text = self.fleet.page(who)
            self.assertIn("version=0.0.4", kind)
            done = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((0, ""), (done.returncode, done.stdout + done.stderr), text)

    @unittest.skipUnless(shutil.which("prometheus"), "there is no prometheus on the PATH (Debian package prometheus)")
    def test_prometheus_scrapes_both(self):
        port, targets = self.fleet.ports["prometheus"], [f"127.0.0.1:{self.fleet.ports[w]}" for w in ("controller", "node-a")]
        config = {"global": {"scrape_interval": "200ms", "scrape_timeout": "200ms"}, "scrape_configs": [{"job_name": "baton", "static_configs": [{"targets": targets}]}]}
        (self.fleet.dir / "prometheus.yml").write_text(json.dumps(config))
        argv = ["prometheus", f"--config.file={self.fleet.dir}/prometheus.yml", f"--storage.tsdb.path={self.fleet.dir}/tsdb", f"--web.listen-address=127.0.0.1:{port}"]
        process = Process("prometheus", argv, self.fleet.dir / "prometheus.log", env=dict(os.environ))
        self.addCleanup(process.kill)
        process.start()

        def ask(query):
            url = f"http://127.0.0.1:{port}/api/v1/query?query={urllib.parse.quote(query)}"
            try:
                with urllib.request.urlopen(url, timeout=10) as answer:
                    return {r["metric"]["instance"]: float(r["value"][1]) for r in json.load(answer)["data"]["result"]}
            except OSError:
                return {}

        wait_until(lambda: f"both are scraped: {ask('up')}\n{process.tail()}", lambda: ask("up") == dict.fromkeys(targets, 1))
        wait_until("the leader is known", lambda: ask("baton_controller_leader") == {targets[0]: 1})
        self.assertEqual(set(targets), set(ask("baton_build_info")))
        self.assertEqual(set(targets), set(ask("min by (instance) (baton_certificate_expiration_timestamp_seconds - time()) > 0")))

    def test_openmetrics_for_who_asks_for_it(self):
        kind, text = self.fleet.page("controller", OPENMETRICS)
        self.assertIn("application/openmetrics-text", kind)
        self.assertTrue(text.endswith("# EOF\n"))
        self.assertIn("# TYPE baton_build info\n", text)
        self.assertIn("# TYPE baton_controller_calls counter\n", text)


class Swaps(unittest.TestCase):
    """The fleet's numbers while versions are rolled, held and blocked; and those of a controller that comes back."""

    def test_the_fleet_is_what_the_page_says(self):
        fleet = MeasuredFleet({"node-a": {"node-a-g0": [1]}})
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.wait_connected()
        samples = lambda: fleet.samples("controller")
        wait = lambda what, **values: wait_until(lambda: f"{what}: {samples()}", lambda: all(samples().get(name) == value for name, value in values.items()))
        prefix = "baton_controller_"
        fleet.publish("v1")
        fleet.wait_serving(1)
        swaps, shut = f'{prefix}swaps_total{{outcome="COMMITTED"}}', f'{prefix}swap_phase_duration_seconds_count{{phase="shut"}}'
        of_m = lambda name: f'{prefix}{name}{{model="m"}}'
        serving = f'{prefix}groups{{model="m",state="SERVING"}}'
        wait("the group serves", **{serving: 1, of_m("newest_version"): 1, of_m("lag_max_publishes"): 0, of_m("groups_unavailable"): 0})
        committed = lambda: sum(outcome == "COMMITTED" for _, _, outcome in fleet.outcomes("node-a-g0"))
        wait("the first swap was counted", **{swaps: committed()})
        before = samples()
        fleet.publish("v2")
        fleet.wait_serving(2)
        wait("the swap was counted", **{swaps: before[swaps] + 1, shut: before[shut] + 1, of_m("newest_version"): 2})
        wait("the roll is over", **{of_m("roll_groups"): 0})
        swap = fleet.group_items()["node-a-g0"]["lastSwap"]
        total = f'{prefix}swap_phase_duration_seconds_sum{{phase="shut"}}'
        self.assertAlmostEqual(int(swap["phases"]["shutNs"]) / 1e9, samples()[total] - before[total], places=6)
        fleet.ctl("hold", "model/m", "--reason", "measured")
        fleet.publish("v3")
        wait("it is behind", **{of_m("lag_max_publishes"): 1, of_m("model_held"): 1, f'{prefix}groups_blocked{{model="m",reason="MODEL_HELD"}}': 1})
        self.assertEqual({1}, {samples()[f"{prefix}{name}"] for name in ("agents", "agents_connected", "leaderships_total")})
        self.assertEqual(1, samples()[of_m("groups_unavailable_limit")])
        fleet.agents["node-a"].kill()
        wait("the agent is silent", **{f"{prefix}agents_connected": 0})
        fleet.controller.kill()
        fleet.controller.start()
        fleet.wait_controller()
        wait("swaps of another life are not counted again", **{of_m("newest_version"): 3, swaps: 0})


if __name__ == "__main__":
    unittest.main()
