#!/usr/bin/env python3
"""Staleness and admission of a real fleet, asked by a client that knows no proto of ours while rolls run: every endpoint that was answered
must have been true (the engine says which version it is), watches must end where Resolve is, slots and sessions must survive kill -9."""

import http.client
import json
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

import fleet
from fleet import Fleet, wait_until

sys.path.insert(0, str(fleet.ROOT / "tests/conformance"))
try:
    import grpc
    import rpc_peer
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    grpc = None

GROUPS = {"node-a": {"g0": [1], "g1": [1]}, "node-b": {"g2": [1, 1]}}
POLICY = {
    "maxUnavailable": "1",
    "staleness": {"bound": 1, "warn": 0},
    "sessions": {"maxHold": "10m", "ttl": "10m"},
    "slots": {"samplesPerPublish": 10, "ttl": "10m"},
}
DISPATCH, COMPLETION, CONSUMPTION = 1, 2, 3


def ask(url, seq):
    """One request that insists on a version; the status and the version that answered."""
    where = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=30)
    body = json.dumps({"model": "default", "prompt": "The conductor", "max_tokens": 2, "temperature": 0})
    try:
        connection.request("POST", "/v1/completions", body, {"Content-Type": "application/json", "x-baton-exact-version": str(seq)})
        response = connection.getresponse()
        response.read()
        return response.status, response.getheader("x-baton-version")
    finally:
        connection.close()


class Watch(threading.Thread):
    """Follows WatchEndpoints and keeps what it says."""

    def __init__(self, call, request):
        super().__init__(daemon=True)
        self.stream, self.endpoints, self.revision, self.resets, self.error = call(request, timeout=300), {}, 0, 0, None
        self.start()

    def run(self):
        try:
            for change in self.stream:
                if change.reset:
                    self.endpoints, self.resets = {}, self.resets + 1
                for group in change.removed:
                    self.endpoints.pop(group, None)
                self.endpoints.update({e.group: e.seq for e in change.endpoints})
                self.revision = change.revision
        except grpc.RpcError as error:
            self.error = error


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Admission(unittest.TestCase):
    """One fleet for all tests of the class; they run in the order of their names."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet(GROUPS)
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.apply_model(**POLICY)
        cls.fleet.publish("v1", "--optimizer-step", 100, "--samples-trained", 1000)
        cls.fleet.wait_serving(1)
        cls.connect()

    @classmethod
    def connect(cls):
        cls.server = Reflected(cls.fleet.server)

    def method(self, name):
        return self.server.method(f"baton.v1.{name}")

    def call(self, rpc, /, **fields):
        call, request, _ = self.method(rpc)
        return call(request(**fields), timeout=TIMEOUT_S)

    def refused(self, code, rpc, /, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(rpc, **fields)
        self.assertEqual(code, caught.exception.code(), f"{rpc}: {caught.exception.details()}")
        return rpc_peer.details_of(self.server, caught.exception)["ErrorInfo"].reason

    def watched(self, enough, *words):
        """Follows 'batonctl ... -w' until its lines are enough."""
        argv = [fleet.program("batonctl"), *words, "-w", "-s", self.fleet.server]
        with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
            lines = []
            while not enough(lines):
                lines.append(process.stdout.readline())
                self.assertTrue(lines[-1], f"{words} ended: {lines}")
            process.kill()

    def publish(self, version, **options):
        return self.fleet.publish(version, **options)["seq"]

    def resolve(self, **fields):
        return self.call("Admission/Resolve", model="m", **fields)

    def check_endpoints(self, reply, since):
        """Asks every engine for exactly the version of the answer.  An engine that has another one by now is fine only if its group got a
        ticket after the answer; gives how many answered."""
        good = 0
        for endpoint in reply.endpoints:
            for engine in endpoint.engines:
                status, version = ask(engine.endpoint, endpoint.seq)
                if status == 200:
                    self.assertEqual(str(endpoint.seq), version, f"{endpoint.group} answered with another version")
                    good += 1
                else:
                    tickets = [e for e in self.fleet.events(f"group/{endpoint.group}") if e["reason"] == "TicketIssued" and e["at"] >= since]
                    self.assertTrue(tickets, f"{endpoint.group} was not on version {endpoint.seq}: {status}, at revision {reply.revision}")
        return good

    @staticmethod
    def now():
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime())

    def test_1_every_endpoint_is_true(self):
        reply = self.resolve()
        self.assertEqual({"g0": 1, "g1": 1, "g2": 1}, {e.group: e.seq for e in reply.endpoints})
        self.assertEqual(2, len([e for e in reply.endpoints if e.group == "g2"][0].engines))
        self.assertEqual({3}, {e.verify_level for e in reply.endpoints})
        self.assertEqual(4, self.check_endpoints(reply, self.now()))
        for _ in range(3):  # Each first page begins at another group.
            pages, token = [], ""
            while not pages or token:
                page = self.resolve(limit=1, page_token=token)
                self.assertEqual((1, 3), (len(page.endpoints), page.endpoints_total))
                pages, token = pages + [page.endpoints[0].group], page.next_page_token
            self.assertEqual(["g0", "g1", "g2"], sorted(pages))
        self.refused(grpc.StatusCode.INVALID_ARGUMENT, "Admission/Resolve", model="m", page_token="x")
        self.assertEqual("VERSION_NOT_READY", self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Admission/Resolve", model="m", exact_seq=2))
        self.assertEqual("VERSION_NOT_READY", self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Admission/Resolve", model="m", min_seq=2))
        out = self.fleet.ctl("endpoints", "m", "--max-lag", "0")
        self.assertEqual(3, out.count("v1"), out)

    def test_2_also_while_a_roll_runs(self):
        call, request, _ = self.method("Admission/WatchEndpoints")
        watch = Watch(call, request(model="m"))
        fresh = Watch(call, request(model="m", max_lag={"bound": 0}))
        wait_until("the watch begins", lambda: len(watch.endpoints) == 3)
        seq = self.publish("v2")
        good = 0
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline:
            since = self.now()
            try:
                good += self.check_endpoints(self.resolve(), since)
                latest = self.resolve(exact_seq=seq)
                good += self.check_endpoints(latest, since)
                self.assertEqual({seq}, {e.seq for e in latest.endpoints})
                if latest.endpoints_total == 3:
                    break
            except grpc.RpcError as error:
                self.assertEqual(grpc.StatusCode.FAILED_PRECONDITION, error.code(), error.details())
        self.assertEqual(3, self.resolve(exact_seq=seq).endpoints_total)
        self.assertEqual(4, self.check_endpoints(self.resolve(), self.now()), "each engine, at rest again")
        self.assertGreater(good, 0, "some also answered while the roll ran")
        for one in (watch, fresh):
            wait_until("the watch ends where Resolve is", lambda one=one: one.endpoints == {"g0": seq, "g1": seq, "g2": seq})
            self.assertIsNone(one.error)
            self.assertEqual(1, one.resets)
        again = Watch(call, request(model="m", from_revision=watch.revision))
        wait_until("it is resumed", lambda: again.revision >= watch.revision)
        self.assertEqual(0, again.resets, "nothing was missed, so nothing is told again")
        for one in (watch, fresh, again):
            one.stream.cancel()

    def test_3_staleness_in_every_unit(self):
        summary = self.call("Staleness/Summary", model="m").summaries[0]
        self.assertEqual((3, 3, 0), (summary.groups, summary.groups_current, summary.groups_over_warn))
        self.fleet.ctl("suspend", "model/m")
        seq = self.fleet.publish("v3", "--optimizer-step", 140, "--samples-trained", 1400)["seq"]
        self.fleet.publish("v1", "--optimizer-step", 150, "--samples-trained", 1500)
        summary = self.call("Staleness/Summary", model="m").summaries[0]
        lags = {lag.unit: lag for lag in summary.lags}
        self.assertEqual((0, 3, 2), (summary.groups_current, summary.groups_over_bound, lags[1].max))
        self.assertEqual(0, lags[2].groups, "version 2 named no step")
        histogram = self.call("Staleness/Histogram", model="m", unit=1)
        self.assertEqual({2: 3}, {b.__getattribute__("from"): b.groups for b in histogram.buckets if b.groups})
        self.assertIn("StalenessBoundExceeded", self.fleet.ctl("describe", "model/m"))
        self.assertIn("####", self.fleet.ctl("staleness", "m", "--histogram"))
        self.watched(lambda lines: any(line.split()[0] == "m" for line in lines), "staleness", "m")
        self.watched(lambda lines: sum(line.startswith("+ g") for line in lines) == 3, "endpoints", "m")
        self.fleet.ctl("resume", "model/m")
        self.fleet.wait_serving(seq + 1)
        group = self.call("Fleet/GetGroup", name="g0")
        self.assertEqual((1, 0, 0), (group.lineage_relation, group.lag_publishes, group.lag_samples))
        cost = self.call("Staleness/Summary", model="m").summaries[0].sync_cost
        self.assertGreaterEqual(cost.swaps, 6)
        self.assertGreater(cost.mean_shut_seconds, 0)
        self.assertEqual(3, len(cost.forecasts))
        self.assertIn("GPU-seconds", self.fleet.ctl("staleness", "m", "-o", "wide"))
        wait_until("a point of the series", lambda: len(self.call("Staleness/Series", model="m").points) > 0)
        self.assertIn("largest lag", self.fleet.ctl("staleness", "m", "--series"))

    def test_4_a_session_keeps_its_version(self):
        before = self.call("Models/Get", name="m").status.newest_seq
        first = self.resolve(session="talk")
        self.assertEqual((before, True), (first.session.seq, first.session.created))
        seq = self.publish("v2")
        call, request, _ = self.method("Admission/Resolve")

        def reasons():
            return {g.get("blockedReason") for g in self.fleet.group_items().values()}

        wait_until("the last group is held", lambda: "BLOCKED_REASON_SESSION_LEASES" in reasons())
        turn = call(request(model="m", session="talk"), timeout=TIMEOUT_S)
        self.assertEqual({before}, {e.seq for e in turn.endpoints}, "the next turn gets the same version")
        self.assertFalse(turn.session.created)
        self.assertEqual(1, self.check_endpoints(turn, self.now()) // len(turn.endpoints[0].engines))
        self.fleet.apply_model(**POLICY | {"sessions": {"maxHold": "1s", "ttl": "10m"}})
        self.fleet.wait_serving(seq)
        self.assertEqual("SESSION_EXPIRED", self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Admission/Resolve", model="m", session="talk"))
        anew = self.resolve(session="talk", restart_session=True)
        self.assertEqual((seq, True), (anew.session.seq, anew.session.created))

    def test_5_slots_bound_what_is_on_the_way(self):
        """40 callers at once want 1 each; (1 + 1) * 10 may."""
        granted, lock = [], threading.Lock()
        call, request, _ = self.method("Admission/AcquireSlots")

        def acquire(i):
            try:
                got = call(request(model="m", count=1, options={"request_id": f"slot-{i}"}), timeout=TIMEOUT_S)
                with lock:
                    granted.append(got.lease)
            except grpc.RpcError as error:
                self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, error.code(), error.details())

        threads = [threading.Thread(target=acquire, args=(i,)) for i in range(40)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(20, len(granted))
        self.assertEqual("SLOTS_FULL", self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "Admission/AcquireSlots", model="m", count=1))
        self.fleet.controller.kill()
        self.fleet.controller.start()
        self.fleet.wait_controller()
        self.connect()
        self.assertEqual("SLOTS_FULL", self.refused(grpc.StatusCode.RESOURCE_EXHAUSTED, "Admission/AcquireSlots", model="m", count=1))
        released = self.call("Admission/ReleaseSlots", model="m", lease=granted[0], dropped=1)
        self.assertEqual((0, 19, 1), (released.held, released.state.held, released.state.room))
        self.fleet.wait_connected()

    def test_6_verdicts_and_counts(self):
        newest = self.call("Models/Get", name="m").status.newest_seq
        spans = [{"seq": newest - 1, "tokens": 120}, {"seq": newest, "tokens": 30}]
        reply = self.call("Admission/EvaluateSamples", model="m", samples=[{"spans": spans}, {"spans": [{"seq": 1, "tokens": 5}]}, {}])
        self.assertEqual([True, False, False], [v.accept for v in reply.verdicts])
        self.assertEqual([[], [5], [1]], [list(v.faults) for v in reply.verdicts])
        self.assertEqual((1, 1), (reply.bound, reply.verdicts[0].max_lag))
        code, out, _ = self.fleet.run("judge", "model/m", "--span", "1:5", "--consumer", str(newest))
        self.assertEqual(1, code)
        self.assertIn("TOO_STALE", out)
        self.assertEqual(0, self.fleet.run("judge", "m", "--span", f"{newest}:5")[0])
        for stage in (DISPATCH, COMPLETION, CONSUMPTION):
            counted = self.call("Admission/ReportSamples", model="m", stage=stage, samples=[{"spans": spans}, {"spans": spans[1:]}])
            self.assertEqual(2, counted.counted)
        lags = {s.stage: s for s in self.call("Staleness/Summary", model="m").summaries[0].samples}
        self.assertEqual({1: (2, 180), 2: (2, 180), 3: (2, 180)}, {k: (s.samples, s.tokens) for k, s in lags.items()})
        self.assertEqual([1, 1], list(lags[3].buckets)[:2])

    def test_7_an_undone_version_is_judged_so(self):
        undone = self.call("Models/Get", name="m").status.promoted_seq
        self.fleet.ctl("roll", "undo", "m", "--reason", "reward collapsed")
        reply = self.call("Admission/EvaluateSamples", model="m", samples=[{"spans": [{"seq": undone, "tokens": 5}]}])
        self.assertEqual([[7]], [list(v.faults) for v in reply.verdicts])
        code, out, _ = self.fleet.run("judge", "m", "--span", f"{undone}:5")
        self.assertEqual((1, True), (code, "UNDONE" in out))


if __name__ == "__main__":
    unittest.main()
