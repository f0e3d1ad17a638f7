#!/usr/bin/env python3
"""Callers that take more than their share: floods, streams, connections that say nothing. They are refused, and the others notice nothing."""

import json
import socket
import ssl
import struct
import subprocess
import unittest

from fleet import ROOT, wait_until
from security_test import SecureFleet, identity

try:
    import grpc
    from flood import connect
except ImportError:
    grpc = None

WATCH = "/baton.v1.Models/Watch"
LIMIT = 1 << 20  # Bytes of one message.
PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, GOAWAY = 4, 7
PER_ADDRESS, CROWD = 64, "127.0.0.3"


class ModestFleet(SecureFleet):
    SETTINGS = {
        "rates": {"viewer": {"calls": 20, "burst": 100, "streams": 3}},
        "connections": {"handshake": "2s", "idle": "2s", "perAddress": PER_ADDRESS},
    }


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Abuse(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = ModestFleet({"node-a": {"node-a-g0": [1]}, "node-b": {"node-b-g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()

    def files_of(self, who):
        pair = self.fleet.pair(who)
        return [self.fleet.server, pair["ca"], pair["cert"], pair["key"]]

    def start_flood(self, who, seconds):
        argv = ["/usr/bin/python3", str(ROOT / "tests/e2e/flood.py"), *self.files_of(who), "--seconds", str(seconds)]
        flood = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(flood.kill)
        return flood

    def sessions(self):
        return [agent.log.read_text().count("session: connected") for agent in self.fleet.agents.values()]

    # --- floods ---

    def test_a_flood_is_refused_and_a_roll_completes_meanwhile(self):
        before = self.sessions()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        flood = self.start_flood("vic", 8)
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        out, err = flood.communicate(timeout=120)
        found = json.loads(out)
        self.assertGreater(found["RESOURCE_EXHAUSTED"], 1000, f"{found} {err}")
        self.assertGreater(found["OK"], 0, found)
        self.assertEqual({"OK", "RESOURCE_EXHAUSTED", "message", "details"}, set(found))
        self.assertIn(f"{identity('viewer', 'vic')} called more than 20 times a second, and 100 more at once", found["message"])
        details = bytes.fromhex(found["details"])
        for word in (b"google.rpc.RetryInfo", b"rates.viewer.calls", b"LIMIT"):
            self.assertIn(word, details)
        self.assertEqual(before, self.sessions(), "an agent lost its session")
        entries = self.fleet.audit("--refused", "--principal", "viewer/vic")
        self.assertIn(("RESOURCE_EXHAUSTED", "baton.v1.Models/List"), {(e["outcome"], e["method"]) for e in entries})
        self.assertLess(len(entries), 100, "the flood is counted, not written down")

    def test_streams_of_one_identity_are_bounded(self):
        channel = connect(*self.files_of("val"))
        self.addCleanup(channel.close)
        open_watch = lambda: channel.unary_stream(WATCH, request_serializer=bytes, response_deserializer=bytes)(b"", timeout=60)
        watches = [open_watch() for _ in range(3)]
        for watch in watches:
            self.assertTrue(next(watch), "a watch begins with what there is")
        with self.assertRaises(grpc.RpcError) as caught:
            next(open_watch())
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.code())
        self.assertIn("has 3 streams open", caught.exception.details())
        watches[0].cancel()

        def opens():
            watch = open_watch()
            try:
                return bool(next(watch))
            except grpc.RpcError:
                return False
            finally:
                watch.cancel()

        wait_until("the place is free again", opens, every=0.5)

    def test_a_message_that_is_too_large_is_refused(self):
        channel = connect(*self.files_of("ada"))
        self.addCleanup(channel.close)
        call = channel.unary_unary("/baton.v1.Models/Get", request_serializer=bytes, response_deserializer=bytes)
        with self.assertRaises(grpc.RpcError) as caught:
            call(b"\x0a" + b"\xff" * (LIMIT + 1), timeout=60)
        self.assertEqual(grpc.StatusCode.RESOURCE_EXHAUSTED, caught.exception.code())

    # --- connections that are of no use ---

    def plain(self):
        connection = socket.create_connection(("127.0.0.1", self.fleet.port), timeout=60)
        self.addCleanup(connection.close)
        return connection

    def secure(self):
        context = ssl.create_default_context(cafile=self.fleet.pki / "ca.crt")
        context.load_cert_chain(self.fleet.pki / "ada.crt", self.fleet.pki / "ada.key")
        context.set_alpn_protocols(["h2"])
        connection = context.wrap_socket(self.plain(), server_hostname="localhost")
        self.addCleanup(connection.close)
        return connection

    def test_an_address_with_too_many_connections_is_refused_and_no_other(self):
        def crowd():
            connections = [socket.create_connection(("127.0.0.1", self.fleet.port), timeout=60, source_address=(CROWD, 0)) for _ in range(2 * PER_ADDRESS)]
            self.assertEqual(0, self.fleet.run("get", "models")[0], "another address suffers")
            for connection in connections:
                connection.close()
            return self.fleet.audit(f"address/{CROWD}", "--refused")

        entry = wait_until("it is on record", crowd)[-1]
        self.assertEqual(("RESOURCE_EXHAUSTED", "handshake"), (entry["outcome"], entry["method"]))
        self.assertIn(f"its address has {PER_ADDRESS} connections here", entry["message"])
        self.assertIn("connections.perAddress", entry["message"])
        self.assertIn("a connection was refused", self.fleet.controller.log.read_text())

    @staticmethod
    def read_to_end(connection):
        """All that comes until the other side ends the connection; a time-out is an error."""
        found = b""
        try:
            while more := connection.recv(65536):
                found += more
        except (ConnectionResetError, ssl.SSLEOFError, ssl.SSLZeroReturnError):
            pass
        return found

    def test_who_never_says_anything_is_cut(self):
        self.assertEqual(b"", self.read_to_end(self.plain()))

    def test_who_only_shakes_hands_is_cut(self):
        self.read_to_end(self.secure())

    def test_who_has_no_call_is_told_to_go(self):
        connection, found, kinds = self.secure(), b"", []
        connection.sendall(PREFACE + struct.pack(">I", 0)[1:] + bytes([SETTINGS, 0]) + bytes(4))
        while GOAWAY not in kinds:
            more = connection.recv(65536)
            self.assertTrue(more, f"the connection ended without a word: {kinds}")
            found += more
            while len(found) >= 9 and len(found) >= 9 + int.from_bytes(found[:3], "big"):
                kinds.append(found[3])
                found = found[9 + int.from_bytes(found[:3], "big") :]


if __name__ == "__main__":
    unittest.main()
