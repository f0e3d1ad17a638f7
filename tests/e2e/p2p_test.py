#!/usr/bin/env python3
"""Versions from node to node: only one agent sees the source's directory; the others get the bytes from their peers."""

import json
import os
import re
import shutil
import socket
import struct
import time
import unittest

import security_test
from fleet import DATA, Fleet, free_ports, private_mounts, wait_until


def hidden(path, argv):
    """The command with another, empty file system over a folder: what is there does not exist for it."""
    return ["unshare", "-m", "sh", "-c", 'mount --make-rprivate / && mount -t tmpfs none "$0" && exec "$@"', str(path), *argv]


def chunks_in(ledger):
    """How many chunks a landing under way has verified."""
    try:
        raw = ledger.read_bytes()
    except OSError:
        return 0
    return sum(raw[i : i + 16] != bytes(16) for i in range(0, len(raw), 16))


class PeerFleet(Fleet):
    """Three agents; only the first one sees what is published."""

    def agent_config(self, name):
        if not hasattr(self, "peers"):
            self.peers = {agent: f"127.0.0.1:{port}" for agent, port in zip(self.groups, free_ports(len(self.groups)))}
        config = {**super().agent_config(name), "peers": {"listen": self.peers[name]}}
        config["landing"]["budget"] = "1GiB"
        if name != self.first():
            config["versions"] = {"directory": str(self.dir / "no-versions-of-others")}
        return config

    def first(self):
        return next(iter(self.groups))

    def make_agent(self, name):
        process = super().make_agent(name)
        if name != self.first():
            process.argv = hidden(self.dir / "versions", process.argv)
        return process

    def landings(self, digest):
        return {name: self.shm / name / digest for name in self.groups}

    def pulled(self, name):
        """Bytes that an agent said it got from each peer, of each version."""
        lines = [l for l in self.agents[name].log.read_text().splitlines() if "pulled a version" in l]
        return [{k: int(v) for k, v in re.findall(r"(node-\w) (\d+)", line)} for line in lines]


@unittest.skipUnless(private_mounts(), "hiding a folder from an agent needs root")
class Peers(unittest.TestCase):
    def setUp(self):
        self.fleet = PeerFleet({"node-a": {"g0": [1]}, "node-b": {"g1": [1]}, "node-c": {"g2": [1]}})
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.wait_connected()

    def test_a_version_reaches_all_though_one_agent_sees_it(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        self.fleet.wait_roll(2)
        for name, before in (("node-b", "node-a"), ("node-c", "node-b")):
            got = self.fleet.pulled(name)
            self.assertEqual(2, len(got), got)
            self.assertTrue(all(peers[before] > 0 for peers in got), (name, got))
        # The line: the source sent each byte once, to the next in it.
        self.assertEqual([0, 0], [peers.get("node-a", 0) for peers in self.fleet.pulled("node-c")])

    def corrupt(self, path):
        """One byte of a tensor changes, and nobody is told."""
        with open(path, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            byte = file.read(1)
            file.seek(-1000, os.SEEK_END)
            file.write(bytes([byte[0] ^ 1]))

    def test_poison_is_attributed_and_never_spread(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.fleet.agents["node-c"].stop()
        digest = self.fleet.publish("v2")["digest"]
        self.fleet.wait_serving(2, groups={"g0", "g1"})
        shard = next(self.fleet.landings(digest)["node-b"].glob("*.safetensors")).name
        self.corrupt(self.fleet.landings(digest)["node-b"] / shard)
        self.fleet.agents["node-c"].start()
        self.fleet.wait_serving(2)
        got = self.fleet.pulled("node-c")[-1]
        self.assertGreater(got["node-a"], 0, "what node-b could not give came from node-a")
        told = wait_until("it is told", lambda: [l for l in self.fleet.ctl("events", "agent/node-c").splitlines() if "PeerPoisoned" in l])
        self.assertIn("node-b", told[0])
        self.assertIn(digest, told[0])
        whole = (self.fleet.landings(digest)["node-a"] / shard).read_bytes()
        self.assertEqual(whole, (self.fleet.landings(digest)["node-c"] / shard).read_bytes())

    def test_a_serving_agent_is_killed_in_the_middle(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        large = self.fleet.dir / "large"
        shutil.copytree(DATA / "v2", large)
        (large / "padding.txt").write_bytes(os.urandom(256 << 20))
        digest = self.fleet.publish(large)["digest"]
        ledger = self.fleet.shm / "node-c" / f".landing-{digest}" / "baton.chunks"
        wait_until("node-c gets chunks", lambda: chunks_in(ledger) >= 10, every=0.002)
        self.fleet.agents["node-b"].kill()
        self.assertFalse(self.fleet.landings(digest)["node-c"].exists(), "it was whole already: nothing was shown")
        wait_until("node-c has it whole", lambda: self.fleet.landings(digest)["node-c"].exists())
        got = wait_until("it is logged", lambda: self.fleet.pulled("node-c")[1:])[0]
        self.assertGreater(got["node-b"], 0, got)
        self.assertGreater(got["node-a"], 0, got)
        self.fleet.agents["node-b"].start()
        self.fleet.wait_serving(2)

    def say_hello(self, address, digest, capability):
        """(code, text) of the answer to a puller that shows these bytes."""
        host, port = address.split(":")
        body = bytes.fromhex(digest) + capability
        with socket.create_connection((host, int(port)), timeout=20) as peer:
            peer.sendall(b"BPR1" + struct.pack("<IIQ", 1, 0, len(body)) + body)
            answer = peer.makefile("rb")
            magic, code, text_bytes, _ = struct.unpack("<4sIIQ", answer.read(20))
            self.assertEqual(b"BPA1", magic)
            return code, answer.read(text_bytes).decode()

    def test_a_forged_capability_is_refused_and_audited(self):
        digest = self.fleet.publish("v1")["digest"]
        self.fleet.wait_serving(1)
        frame = lambda text: struct.pack("<I", len(text)) + text
        now = int(time.time())
        claims = frame(b"node-x") + frame(b"") + bytes.fromhex(digest) + struct.pack("<QQ", now, now + 600)
        forged = b"BCP1" + b"\x07" * 8 + claims + b"\x55" * 64
        code, text = self.say_hello(self.fleet.peers["node-a"], digest, forged)
        self.assertEqual((2, True), (code, "the controller did not tell of" in text), text)
        entries = lambda: [e for e in json.loads(self.fleet.ctl("audit", "--refused", "-o", "json")).get("entries", []) if e["method"] == "p2p/Pull"]
        entry = wait_until("it is audited", entries)[0]
        self.assertEqual(("agent/node-a", "node-x", "PERMISSION_DENIED"), (entry["object"], entry["requestedBy"], entry["outcome"]))
        self.assertIn(digest, entry["message"])
        self.assertIn("127.0.0.1", entry["address"])
        self.assertIn("PeerRefused", self.fleet.ctl("events", "agent/node-a"))

    def test_the_plan_says_how_the_bytes_come(self):
        self.fleet.ctl("suspend", f"model/{self.fleet.model}")
        self.fleet.publish("v1")
        groups = {g["group"]: g["route"] for g in json.loads(self.fleet.ctl("roll", "plan", "m", "-o", "json"))["groups"]}
        self.assertIn("published the version itself", groups["g0"])
        self.assertIn("from peers: node-a", groups["g1"])
        self.assertIn("from peers: node-b, then node-a", groups["g2"])


class SecurePeerFleet(PeerFleet, security_test.SecureFleet):
    """The same with certificates on every connection."""

    PEOPLE = {"ada": "operator"}

    def agent_config(self, name):
        pair = self.pair(name)
        return {**super().agent_config(name), "listenTls": {"cert": pair["cert"], "key": pair["key"], "clientCa": pair["ca"]}}


@unittest.skipUnless(private_mounts(), "hiding a folder from an agent needs root")
class Followers(unittest.TestCase):
    """node-a is the source and leads a group of its own; node-b leads g1, in which node-c and node-d follow, node-d without an engine."""

    GROUPS = {"node-a": {"g0": [1]}, "node-b": {"g1": [1]}, "node-c": {"g1": [1]}, "node-d": {"g1": []}}

    def test_followers_pull_from_peers(self):
        """No follower sees the source's directory, so its leader's word alone would land nothing."""
        fleet = PeerFleet(self.GROUPS)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.wait_connected()
        fleet.publish("v1")
        fleet.wait_serving(1)
        digest = fleet.publish("v2")["digest"]
        fleet.wait_serving(2)
        for name in self.GROUPS:
            self.assertTrue((fleet.shm / name / digest / "baton.manifest.json").exists(), name)
        for name, before in (("node-c", "node-b"), ("node-d", "node-c")):
            got = fleet.pulled(name)
            self.assertEqual(2, len(got), got)
            self.assertTrue(all(peers.get(before, 0) > 0 and peers.get("node-a", 0) == 0 for peers in got), (name, got))
        # A follower that comes back without anything gets it from who has it.
        fleet.agents["node-c"].stop()
        shutil.rmtree(fleet.shm / "node-c" / digest)
        fleet.agents["node-c"].start()
        wait_until(lambda: f"node-c has it again\n{fleet.tails()}", (fleet.shm / "node-c" / digest / "baton.manifest.json").exists)
        fleet.wait_serving(2)


@unittest.skipUnless(private_mounts(), "hiding a folder from an agent needs root")
class SecurePeers(unittest.TestCase):
    def test_a_version_reaches_all_over_mutual_tls(self):
        groups = {name: {f"{name}-g0": [1]} for name in ("node-a", "node-b", "node-c")}
        fleet = SecurePeerFleet(groups)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.wait_connected()
        fleet.publish("v1")
        fleet.wait_serving(1)
        self.assertGreater(fleet.pulled("node-b")[0]["node-a"], 0)
        self.assertGreater(fleet.pulled("node-c")[0]["node-b"], 0)
        self.assertEqual([], fleet.audit("--refused"))


if __name__ == "__main__":
    unittest.main()
