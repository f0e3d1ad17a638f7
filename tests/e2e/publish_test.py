#!/usr/bin/env python3
"""What batonctl publish says about damaged checkpoints, and that nothing stays behind; retries, races, partial and unfit versions, no room.

publisher_test.py asks the same of the Python package; here it is the command, and fleets that must live on.
"""

import json
import os
import random
import re
import shutil
import struct
import threading
import time
import subprocess
import unittest

import checkpoints
import fleet
from fleet import Fleet, GateWatch, check_answers, read_answers, wait_until

NORM = "model.norm.weight"
RANDOM = random.Random(fleet.SEED)
QUICK = {"retryFirst": "200ms", "retryMax": "1s"}


class Sources(Fleet):
    """Agents that publish; their one engine each is never started."""

    def engine_config(self, agent, group, index, ranks):
        return {"name": f"e{index}", "kind": "vllm", "url": f"http://127.0.0.1:{fleet.free_ports(1)[0]}"}

    def stored(self):
        """All that lies in the agents' stores, unfinished copies included."""
        return sorted(p.name for p in (self.dir / "versions").rglob("*") if p.is_dir() and p.parent.name in self.groups)

    def seqs(self):
        return sorted(int(v["seq"]) for v in self.get("versions") if int(v.get("seq", 0)) > 0)


def header_with(**changes):
    """Changes fields of one tensor's header."""

    def damage(path):
        header, data = checkpoints.read_file(path)
        header[NORM].update({k: v(header[NORM], data) if callable(v) else v for k, v in changes.items()})
        checkpoints.write_file(path, header, data)

    return damage


def rewritten(change):
    return lambda path: path.write_bytes(change(path.read_bytes()))


def twice(path):
    header, data = checkpoints.read_file(path)
    text = json.dumps(header)[:-1] + f', "{NORM}": ' + json.dumps(header[NORM]) + "}"
    checkpoints.write_file(path, text.encode(), data)


def moved(by):
    return lambda entry, data: [offset + by for offset in entry["data_offsets"]]


FIELD = rf"model\.safetensors: tensor '{NORM}': "
# What is done to v1's file, and what the message must name: the file, and as far as there is one, tensor and field.
DAMAGES = {
    "truncated": (rewritten(lambda raw: raw[:-100]), r"model\.safetensors: truncated: short by 100 bytes"),
    "too long": (rewritten(lambda raw: raw + b"1234567"), r"model\.safetensors: trailing bytes: too long by 7 bytes"),
    "empty": (rewritten(lambda raw: b""), r"model\.safetensors: truncated: shorter than the 8 bytes"),
    "oversized header": (rewritten(lambda raw: struct.pack("<Q", 1 << 40) + raw[8:]), r"model\.safetensors: header length 1099511627776 is above"),
    "header beyond the file": (rewritten(lambda raw: struct.pack("<Q", len(raw)) + raw[8:]), r"model\.safetensors: truncated: header length"),
    "not JSON": (rewritten(lambda raw: raw[:8] + b"[" + raw[9:]), r"model\.safetensors: header: does not begin with '{'"),
    "duplicate name": (twice, rf"model\.safetensors: header: JSON: duplicate object key near '\"{NORM}\"'"),
    "unknown dtype": (header_with(dtype="F7"), FIELD + "dtype: 'F7' is unknown"),
    "dtype missing": (header_with(dtype=None), FIELD + "dtype: missing or not a string"),
    "shape too large": (header_with(shape=[129]), FIELD + r"data_offsets: 256 bytes, but BF16 of \[129\] needs 258"),
    "shape that overflows": (header_with(shape=[1 << 62, 1 << 62]), FIELD + "shape: its size overflows"),
    "negative shape": (header_with(shape=[-1]), FIELD + "shape: a dimension is not a whole number"),
    "offsets reversed": (header_with(data_offsets=lambda entry, data: entry["data_offsets"][::-1]), FIELD + "data_offsets: ends before it begins"),
    "overlap": (header_with(data_offsets=moved(-2)), FIELD + r"data_offsets: begins at \d+, an overlap"),
    "gap": (header_with(data_offsets=moved(256)), FIELD + r"data_offsets: begins at \d+, a gap"),
}


class Refused(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = Sources({"a": {"ga": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()

    def refuse(self, directory, pattern, code=1, words=("--model", "m")):
        before = self.fleet.stored(), self.fleet.get("versions")
        got, out, err = self.fleet.run("publish", directory, *words)
        self.assertEqual((code, ""), (got, out), err)
        self.assertRegex(err, pattern)
        self.assertEqual(before, (self.fleet.stored(), self.fleet.get("versions")))

    def place(self):
        target = self.fleet.dir / "checkpoint"
        shutil.rmtree(target, ignore_errors=True)
        return target

    def test_damaged_files(self):
        for name, (damage, pattern) in DAMAGES.items():
            with self.subTest(name):
                directory = checkpoints.copy_of("v1", self.place())
                damage(directory / "model.safetensors")
                self.refuse(directory, pattern + r".*\(INVALID_ARGUMENT, CHECKPOINT_INVALID\)")

    def test_shards(self):
        directory = checkpoints.copy_of("v2", self.place())
        index = directory / "model.safetensors.index.json"
        good = json.loads(index.read_text())
        second = "model-00002-of-00002.safetensors"
        for change, pattern in (
            ({NORM: "model-00001-of-00002.safetensors"}, rf"{second}: tensor '{NORM}': the index says that it is in model-00001"),
            ({"stranger": second}, rf"tensor 'stranger': the index says that it is in {second}"),
            ({NORM: "model-00003-of-00002.safetensors"}, r"model-00003-of-00002\.safetensors"),
        ):
            with self.subTest(pattern):
                index.write_text(json.dumps({**good, "weight_map": {**good["weight_map"], **change}}))
                self.refuse(directory, pattern)
        index.write_text(json.dumps(good))
        (directory / second).unlink()
        self.refuse(directory, rf"shard '{second}' is missing; the index puts 24 tensors into it")

    def test_places_and_names(self):
        directory = checkpoints.copy_of("v1", self.place())
        (directory / "config.json").unlink()
        self.refuse(directory, r"'config\.json': missing")
        self.refuse(self.fleet.dir / "nowhere", "nowhere: no such directory")
        self.refuse(fleet.DATA / "v1", r"there is no model nobody.*\n?hint: .*batonctl apply -f", words=("--model", "nobody"))
        self.refuse(fleet.DATA / "v1", r"no agent answers.*\n?hint: .*baton-agent --config", code=4, words=("--model", "m", "--agent", f"unix:{self.fleet.dir}/no.sock"))

    def test_partial(self):
        self.assertEqual(3, self.run_partial())

    def run_partial(self):
        """A parent, a version of its changed tensors only, and the same published whole: the digests agree."""
        first = self.fleet.publish("v2", "--optimizer-step", 10)
        changed = {n: t for n, t in checkpoints.tensors_of(fleet.DATA / "v3").items() if checkpoints.tensors_of(fleet.DATA / "v2")[n] != t}
        directory = self.place()
        checkpoints.write_tensors(directory, changed)
        partial = json.loads(self.fleet.ctl("publish", directory, "--model", "m", "--partial", "-o", "json"))
        whole = self.fleet.publish("v3")
        self.assertEqual((first["seq"] + 1, whole["digest"]), (partial["seq"], partial["digest"]))
        checkpoints.write_tensors(directory, {**changed, "stranger": ("F32", [1], bytes(4))})
        self.refuse(directory, r"tensor 'stranger': the parent has no tensor of this name", words=("--model", "m", "--partial"))
        checkpoints.write_tensors(directory, {NORM: ("BF16", [64, 2], bytes(256))})
        self.refuse(directory, rf"tensor '{NORM}': shape is \[64, 2\], not \[128\]", words=("--model", "m", "--partial"))
        return len(self.fleet.seqs())


class Retries(unittest.TestCase):
    def setUp(self):
        self.fleet = Sources({"a": {"ga": [1]}, "b": {"gb": [1]}})
        self.addCleanup(self.fleet.close)
        self.fleet.start()

    def test_one_request_id_is_one_version(self):
        first = self.fleet.publish("v1", "--request-id", "try")
        again = self.fleet.publish("v1", "--request-id", "try")
        self.assertEqual((first["seq"], first["uid"], True), (again["seq"], again["uid"], again["repeated"]))
        self.fleet.controller.kill()
        self.fleet.controller.start()
        self.fleet.wait_controller()
        third = self.fleet.publish("v1", "--request-id", "try", agent="b")
        self.assertEqual((first["seq"], first["uid"], True), (third["seq"], third["uid"], third["repeated"]))
        self.assertEqual([1], self.fleet.seqs())

    def test_a_controller_that_dies_meanwhile(self):
        """Killed at some instant of a publish, and started again: the publish that waited and its retry agree."""
        words = ("publish", fleet.DATA / "v1", "--model", "m", "-o", "json", "--request-id")
        for number, delay in enumerate(RANDOM.uniform(0, 0.15) for _ in range(3)):
            answers = []
            thread = threading.Thread(target=lambda n=number: answers.append(self.fleet.run(*words, n)))
            thread.start()
            time.sleep(delay)  # An instant, not a wait for something.
            self.fleet.controller.kill()
            self.fleet.controller.start()
            thread.join()
            self.assertEqual(0, answers[0][0], answers[0])
            again = json.loads(self.fleet.ctl(*words, number))
            self.assertEqual((json.loads(answers[0][1])["uid"], True), (again["uid"], again["repeated"]))
        self.assertEqual([1, 2, 3], self.fleet.seqs())

    def test_two_publishers_race(self):
        results = []
        run = lambda agent, versions: results.extend(self.fleet.publish(v, agent=agent)["seq"] for v in versions)
        threads = [threading.Thread(target=run, args=(a, v)) for a, v in (("a", ["v1", "v2"] * 2), ("b", ["v2", "v3"] * 2))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(list(range(1, 9)), sorted(results))
        self.assertEqual(list(range(1, 9)), self.fleet.seqs())


class Unfit(unittest.TestCase):
    """A version that no engine can take: the group serves on, and its gate is never closed."""

    def test_other_shapes_are_refused_before_any_pause(self):
        with Fleet({"a": {"one": [1], "two": [2]}}) as f:
            f.start()
            f.publish("v1")
            f.wait_serving(1)
            gates, traffic = GateWatch(f), f.start_traffic()
            gates.start()
            self.addCleanup(gates.stop)
            f.publish(checkpoints.other_model(f.dir / "wide"))
            blocked = lambda: {g.get("blockedReason") for g in f.group_items().values()}
            wait_until(lambda: f"INCOMPATIBLE_LAYOUT: {blocked()}\n{f.tails()}", lambda: blocked() == {"BLOCKED_REASON_INCOMPATIBLE_LAYOUT"})
            code, out, err = f.run("wait", "m", "--timeout", "1s")
            self.assertEqual(3, code, out + err)
            group = f.ctl("describe", "group", "two")
            self.assertRegex(group, r"mlp\.\w+_proj\.weight.*shape|shape.*mlp\.\w+_proj\.weight")
            self.assertEqual({0.0}, set(gates.restart().values()), "no gate was closed")
            f.publish("v2")  # A version that fits supersedes it.
            f.wait_serving(3)
            for name in ("one", "two"):  # The agent may have been asked before it had compared.
                self.assertLessEqual({o for _, seq, o in f.outcomes(name) if seq == 2}, {"REFUSED"})
            traffic.stop(70)
            answers = read_answers(traffic)
            self.assertEqual([], [a for a in answers if a["status"] != 200][:3])
            check_answers(answers, {1: "v1", 3: "v2"})


@unittest.skipUnless(fleet.private_mounts(), "a small file system needs root and mounts of one's own")
class NoRoom(unittest.TestCase):
    """A file system without room: the error says so, nothing is lost, and all goes on when there is room again."""

    def blocked(self, f, group):
        return f.group_items()[group].get("blockedReason", "")

    def wait_described(self, f, pattern):
        described = lambda: f.ctl("describe", "group", "one")
        wait_until(lambda: f"{pattern}: {described()}", lambda: re.search(pattern, described()))

    def fill(self, folder):
        """Leaves no byte free."""
        with open(folder / "filler", "wb", buffering=0) as file:
            for size in (1 << 16, 1 << 10, 1):
                try:
                    while True:
                        file.write(bytes(size))
                except OSError:
                    continue

    def test_landing(self):
        with Fleet({"a": {"one": [1]}, "b": {"two": [2]}}, times=QUICK) as f:
            landing = f.shm / "a"
            f.mount_small(landing, "3m")
            f.start()
            f.publish("v1")
            f.wait_serving(1)
            self.fill(landing)
            f.publish("v2")
            f.wait_serving(2, groups=["two"])
            wait_until(lambda: f"NO_MEMORY: {self.blocked(f, 'one')}\n{f.tails()}", lambda: self.blocked(f, "one") == "BLOCKED_REASON_NO_MEMORY")
            one = f.group_items()["one"]
            self.assertEqual((1, True), (int(one["committedSeq"]), one["gateOpen"]))
            self.wait_described(f, r"to unblock +.*needs \d+ bytes, \d+ are free")
            (landing / "filler").unlink()
            f.wait_serving(2)

    def test_landing_budget(self):
        """The budget of the configuration, smaller than two versions."""

        class Small(Fleet):
            def agent_config(self, name):
                config = super().agent_config(name)
                config["landing"]["budget"] = "1800KiB"
                return config

        with Small({"a": {"one": [1]}}, times=QUICK) as f:
            f.start()
            f.publish("v1")
            f.wait_serving(1)
            f.publish("v2")
            wait_until(lambda: f"NO_MEMORY: {self.blocked(f, 'one')}\n{f.tails()}", lambda: self.blocked(f, "one") == "BLOCKED_REASON_NO_MEMORY")
            self.wait_described(f, r"to unblock +.*needs \d+ bytes, \d+ are free \(budget\)")
            config = json.loads((f.dir / "a.yaml").read_text())
            config["landing"]["budget"] = "64MiB"
            (f.dir / "a.yaml").write_text(json.dumps(config))
            self.assertEqual(0, f.agents["a"].stop())
            f.agents["a"].start()
            f.wait_serving(2)

    def test_store(self):
        """The controller's disk: no acknowledged publish is lost, and none is acknowledged that was not stored."""
        with Sources({"a": {"ga": [1]}}) as f:
            disk = f.dir / "disk"
            f.mount_small(disk, "2m")
            f.controller.argv[-1] = f"sqlite:{disk}/controller.db"
            f.start()
            known = [f.publish("v1")["seq"]]
            self.fill(disk)
            path = f.dir / "full.yaml"
            path.write_text(json.dumps({"kind": "Model", "metadata": {"name": "other"}}))
            code, out, err = f.run("apply", "-f", path)
            while code == 0:  # Until what the database had left is used up.
                code, out, err = f.run("apply", "-f", path, "--reason", "x" * 200)
            self.assertRegex(err, r"full|space", out)
            code, _, err = f.run("publish", fleet.DATA / "v2", "--model", "m", "--timeout", "5s")
            self.assertIn(code, (1, 3, 4), err)
            (disk / "filler").unlink()
            wait_until("the store takes writes again", lambda: f.run("apply", "-f", path)[0] == 0)
            known.append(f.publish("v3")["seq"])
            self.assertTrue(set(known) <= set(f.seqs()), (known, f.seqs()))
            f.controller.kill()
            f.controller.start()
            f.wait_controller()
            self.assertTrue(set(known) <= set(f.seqs()), (known, f.seqs()))

    def test_journal(self):
        """The agent's disk: the reserve that its journal keeps carries swaps on, through a crash too; engines serve all the while."""
        with Fleet({"a": {"one": [1]}}) as f:
            disk, names = f.dir / "a", {1: "v1"}
            f.mount_small(disk, "4m")
            f.start()
            f.publish("v1")
            f.wait_serving(1)
            traffic = f.start_traffic()
            self.fill(disk)
            self.assertEqual(0, os.statvfs(disk).f_bavail)
            for version in ("v2", "v1", "v2"):
                seq = f.publish(version)["seq"]
                names[seq] = version
                f.wait_serving(seq)
                f.agents["a"].kill()
                f.agents["a"].start()
                f.wait_connected()
            (disk / "filler").unlink()
            names[seq + 1] = "v1"
            f.publish("v1")
            f.wait_serving(seq + 1)
            traffic.stop(70)
            answers = read_answers(traffic)
            self.assertEqual([], [a for a in answers if a["status"] != 200][:3])
            check_answers(answers, names)

    def test_journal_without_a_reserve(self):
        """A disk too small for the reserve: tickets are not taken, and taken again once there is room."""
        with Fleet({"a": {"one": [1]}}) as f:
            disk = f.dir / "a"
            f.mount_small(disk, "1m")
            f.start()
            f.publish("v1")
            wait_until("a ticket is ignored for want of room", lambda: "TicketIgnored" in f.ctl("events"))
            self.assertFalse(f.group_items()["one"].get("gateOpen"))
            subprocess.run(["mount", "-o", "remount,size=8m", str(disk)], check=True)
            f.wait_serving(1)


if __name__ == "__main__":
    unittest.main()
