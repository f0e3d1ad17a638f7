#!/usr/bin/env python3
"""A client that knows no proto of ours: python3-grpcio learns all from a running controller by reflection and calls every method."""

import sys
import threading
import unittest

import fleet
from fleet import Fleet, Process, program, wait_until

sys.path.insert(0, str(fleet.ROOT / "tests/conformance"))
try:
    import grpc
    import rpc_peer
    from rpc_reflect import TIMEOUT_S, Reflected
except ImportError:
    grpc = None

SERVICES = {"Models", "Versions", "Rolls", "Fleet", "Staleness", "Admission", "AgentSession", "Audit"}
STANDARD = {"grpc.health.v1.Health", "grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection"}
SERVING, NOT_SERVING = 1, 2


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Foreign(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Fleet({"a": {"one": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1", "--optimizer-step", 7)
        cls.fleet.wait_serving(1)
        cls.fleet.wait_labels(1)
        cls.server = Reflected(cls.fleet.server)

    def call(self, method, **fields):
        """One message, or the list of those that a stream gives until it ends."""
        call, request, _ = self.server.method(f"baton.v1.{method}")
        streams = self.server.shapes(f"baton.v1.{method.split('/')[0]}")[method.split("/")[1]]
        argument = iter([request(**fields)]) if streams[0] else request(**fields)
        answer = call(argument, timeout=TIMEOUT_S)
        return list(answer) if streams[1] else answer

    def refused(self, code, method, **fields):
        with self.assertRaises(grpc.RpcError) as caught:
            self.call(method, **fields)
        self.assertEqual(code, caught.exception.code(), f"{method}: {caught.exception.details()}")
        return caught.exception

    def test_all_services_and_nothing_else(self):
        wanted = sorted({f"baton.v1.{s}" for s in SERVICES} | STANDARD)
        self.assertEqual(wanted, self.server.services())
        self.assertEqual(wanted, Reflected(self.fleet.server, "v1alpha").services())

    def test_empty_requests(self):
        """Every method answers an empty request with a code of sense."""
        self.assertEqual(0, rpc_peer.call_everything(self.fleet.server))

    def test_reads(self):
        model = self.call("Models/Get", name="m")
        self.assertEqual(("m", 1), (model.meta.name, model.status.promoted_seq))
        self.assertEqual(["m"], [m.meta.name for m in self.call("Models/List").models])
        (version,) = [v for v in self.call("Versions/List", model="m").versions if v.seq > 0]
        self.assertEqual((1, 7), (version.seq, version.optimizer_step))
        self.assertEqual(version.meta.uid, self.call("Versions/Get", model="m", seq=1).meta.uid)
        (group,) = self.call("Fleet/ListGroups", model="m").groups
        self.assertEqual(("one", True, version.digest), (group.meta.name, group.gate_open, group.committed_digest))
        self.assertEqual(group.meta.uid, self.call("Fleet/GetGroup", name="one").meta.uid)
        self.assertIn("a", [a.meta.name for a in self.call("Fleet/ListAgents").agents])
        self.assertEqual([("one", "1")], [(e.group, e.label) for e in self.call("Fleet/ListEngines", group="one").engines])
        self.assertTrue(self.call("Rolls/List", model="m").rolls)
        self.assertEqual(1, self.call("Rolls/Get", model="m").to_seq)
        self.assertTrue(self.call("Rolls/History", model="m").rolls)
        self.assertEqual(1, self.call("Rolls/Wait", model="m", condition="converged").outcome)
        reasons = [e.reason for e in self.call("Fleet/Events", object="group/one")]
        self.assertIn("RejoinTicketIssued", reasons)

    def test_watches_begin_with_what_is(self):
        for method, field in (("Models/Watch", "model"), ("Versions/Watch", "version"), ("Rolls/Watch", "roll"), ("Fleet/Watch", "group")):
            with self.subTest(method):
                call, request, _ = self.server.method(f"baton.v1.{method}")
                stream = call(request(), timeout=TIMEOUT_S)
                found = False
                for change in stream:  # Until the deadline, if there is none such.
                    found = found or change.HasField(field)
                    if found and change.revision > 0:
                        break
                stream.cancel()

    def test_refusals(self):
        for method, fields in (
            ("Models/Get", {"name": "nobody"}), ("Versions/Get", {"model": "m", "seq": 99}), ("Fleet/GetGroup", {"name": "nobody"}),
            ("Rolls/Get", {"model": "nobody"}), ("Models/Suspend", {"name": "nobody"}), ("Rolls/Start", {"model": "nobody"}),
        ):
            with self.subTest(method):
                self.refused(grpc.StatusCode.NOT_FOUND, method, **fields)
        error = self.refused(grpc.StatusCode.INVALID_ARGUMENT, "Models/Apply", name="m", spec={"update": {"kv": "salt"}})
        details = rpc_peer.details_of(self.server, error)
        self.assertIn("kv", details["BadRequest"].field_violations[0].field)
        error = self.refused(grpc.StatusCode.ABORTED, "Models/Suspend", name="m", options={"expected_revision": 1 << 40})
        self.assertEqual("STALE_REVISION", rpc_peer.details_of(self.server, error)["ErrorInfo"].reason)

    def test_verbs(self):
        """Each mutation twice under one request id: the same answer, done once."""
        apply = {"name": "other", "spec": {"update": {"trigger": "Manual"}}, "options": {"request_id": "foreign-apply", "reason": "a test"}}
        first, again = self.call("Models/Apply", **apply), self.call("Models/Apply", **apply)
        self.assertEqual((first.meta.uid, first.meta.revision), (again.meta.uid, again.meta.revision))
        self.assertTrue(self.call("Models/Suspend", name="other", options={"request_id": "foreign-suspend"}).status.suspended)
        self.assertFalse(self.call("Models/Resume", name="other", options={"request_id": "foreign-resume"}).status.suspended)
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Rolls/Pause", model="m")
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Rolls/Resume", model="m")
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Rolls/Undo", model="m")

    def test_a_session(self):
        """An agent without groups says hello and is welcome; one of another protocol is not."""
        call, request, _ = self.server.method("baton.v1.AgentSession/Session")
        ended = threading.Event()
        self.addCleanup(ended.set)

        def talk(protocol):
            yield request(hello={"agent": "stranger", "protocol": protocol, "software": "test", "journal_incarnation": "ab" * 16})
            ended.wait(TIMEOUT_S)

        stream = call(talk(1), timeout=TIMEOUT_S)
        self.assertEqual("welcome", next(stream).WhichOneof("message"))
        stream.cancel()
        with self.assertRaises(grpc.RpcError) as caught:
            next(call(talk(99), timeout=TIMEOUT_S))
        self.assertIn("protocol", caught.exception.details())

    def test_a_publish_step_by_step(self):
        """What a source agent does; each step refuses what does not fit the one before."""
        version = self.call("Versions/Open", model="m", optimizer_step=8, options={"request_id": "foreign-open"})
        self.assertEqual((0, 8), (version.seq, version.optimizer_step))
        self.assertEqual(version.meta.uid, self.call("Versions/Open", model="m", optimizer_step=8, options={"request_id": "foreign-open"}).meta.uid)
        uid = version.meta.uid
        self.call("Versions/ReportProgress", version_uid=uid, bytes_ready=5, bytes=10)
        self.assertEqual(5, self.call("Versions/Get", version_uid=uid).bytes_ready)
        error = self.refused(grpc.StatusCode.INVALID_ARGUMENT, "Versions/AddManifestPart", version_uid=uid, part=b"no manifest")
        self.assertIn("part", error.details())
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Versions/Seal", version_uid=uid, digest="0" * 32, bytes=10)
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Versions/Publish", version_uid=uid, sources=[{"backend": "file", "location": "/nowhere"}])
        self.assertEqual([1], [v.seq for v in self.call("Versions/List", model="m").versions if v.seq > 0])
        self.assertIn(f"version {uid} abandoned", self.fleet.ctl("abandon", uid))
        self.refused(grpc.StatusCode.NOT_FOUND, "Versions/Get", version_uid=uid)
        self.assertNotIn(uid, [v.meta.uid for v in self.call("Versions/List", model="m").versions])
        published = self.call("Versions/Get", model="m", seq=1)
        self.refused(grpc.StatusCode.FAILED_PRECONDITION, "Versions/Abandon", version_uid=published.meta.uid)

    def test_health_follows_the_state(self):
        """SERVING while it serves, NOT_SERVING from the moment that it drains."""
        (port,) = fleet.free_ports(1)
        process = Process("controller", [program("baton-controller"), "--listen", f"127.0.0.1:{port}", "--store", "memory:"], self.fleet.dir / "drain.log")
        self.addCleanup(process.kill)
        process.start()
        wait_until("it listens", lambda: "listening" in process.tail())
        server = Reflected(f"127.0.0.1:{port}")
        check, request, _ = server.method("grpc.health.v1.Health/Check")
        for service in ("", "baton.v1.Models", "baton.v1.AgentSession"):
            wait_until(f"{service} serves", lambda s=service: check(request(service=s), timeout=TIMEOUT_S).status == SERVING)
        watch, request, _ = server.method("grpc.health.v1.Health/Watch")
        stream = watch(request(service="baton.v1.Models"), timeout=30)
        self.assertEqual(SERVING, next(stream).status)
        ended = threading.Thread(target=process.stop)
        ended.start()
        self.assertEqual(NOT_SERVING, next(stream).status)
        ended.join()
        self.assertEqual(0, process.popen.returncode)


if __name__ == "__main__":
    unittest.main()
