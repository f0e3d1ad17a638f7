#!/usr/bin/env python3
"""Publishing through real agents to a real controller: directories, tensors, partial versions, faults, retries.

Standard library only.  usage: publisher_test.py [unittest arguments]; BATON_BUILD names the build folder.
"""

import json
import os
import pathlib
import random
import shutil
import signal
import struct
import subprocess
import sys
import threading
import time
import unittest

import fleet

os.environ.setdefault("BATON_LIB", str(fleet.BUILD / "api/client/libbaton.so"))
sys.path.insert(0, str(fleet.ROOT / "api/python"))

import baton  # noqa: E402


RANDOM = random.Random(int(os.environ.get("BATON_SEED") or 1))
INSTANTS = 50 if os.environ.get("BATON_FULL") else 10


def read_safetensors(path):
    """{name: (dtype, shape, bytes)} of one file."""
    raw = pathlib.Path(path).read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    header = json.loads(raw[8 : 8 + size])
    header.pop("__metadata__", None)
    data = raw[8 + size :]
    return {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}


def read_checkpoint(directory):
    tensors = {}
    for path in sorted(pathlib.Path(directory).glob("*.safetensors")):
        tensors.update(read_safetensors(path))
    return tensors


def write_safetensors(path, tensors, trailing=b""):
    header, at, data = {}, 0, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + len(raw)]}
        at += len(raw)
        data += raw
    text = json.dumps(header).encode()
    pathlib.Path(path).write_bytes(struct.pack("<Q", len(text)) + text + data + trailing)


class Sources(fleet.Fleet):
    """Agents that publish; their one engine each is never started."""

    def __init__(self, *agents):
        super().__init__({name: {f"g-{name}": [1]} for name in agents})

    def engine_config(self, agent, group, index, ranks):
        return {"name": f"e{index}", "kind": "vllm", "url": f"http://127.0.0.1:{fleet.free_ports(1)[0]}"}


class Publishing(unittest.TestCase):
    def setUp(self):
        self.fleet = Sources("a", "b")
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.a, self.b = self.publisher("a"), self.publisher("b")

    def publisher(self, agent, model=None):
        return baton.Publisher(model or self.fleet.model, agent=f"unix:{self.fleet.dir}/{agent}.sock")

    def seqs(self):
        return sorted(int(v.get("seq", 0)) for v in self.fleet.get("versions") if int(v.get("seq", 0)) > 0)

    def stored(self):
        """Names of what lies in the agents' roots, hidden leftovers included, their own files not."""
        found = set()
        for agent in self.fleet.groups:
            root = self.fleet.dir / "versions" / agent
            found |= {p.name for p in root.iterdir() if p.is_dir()} if root.exists() else set()
        return found | {p.name for p in (self.fleet.dir / "versions").iterdir() if p.name.startswith(".")}

    def copy(self, version):
        target = self.fleet.dir / f"copy-{version}"
        shutil.copytree(fleet.DATA / version, target)
        return target

    def refused(self, error, pattern, directory, **facts):
        """Publishing this directory fails with these words, and leaves nothing anywhere."""
        before = self.stored(), len(self.fleet.get("versions"))
        with self.assertRaisesRegex(error, pattern):
            self.a.publish_directory(directory, **facts)
        self.assertEqual(before, (self.stored(), len(self.fleet.get("versions"))))


class Directories(Publishing):
    def test_directory_and_retry(self):
        first = self.a.publish_directory(fleet.DATA / "v1", optimizer_step=100, request_id="one")
        self.assertEqual((1, False), (first.seq, first.repeated))
        again = self.a.publish_directory(fleet.DATA / "v1", optimizer_step=100, request_id="one")
        self.assertEqual((1, first.uid, first.digest, True), (again.seq, again.uid, again.digest, again.repeated))
        elsewhere = self.b.publish_directory(fleet.DATA / "v1", optimizer_step=100, request_id="one")
        self.assertEqual((1, True), (elsewhere.seq, elsewhere.repeated))
        self.assertEqual([1], self.seqs())
        (version,) = self.fleet.get("versions")
        self.assertEqual(("100", first.digest), (version["optimizerStep"], version["digest"]))
        self.assertEqual("file", version["sources"][0]["backend"])
        where = pathlib.Path(first.directory)
        self.assertEqual(read_checkpoint(fleet.DATA / "v1"), read_checkpoint(where))
        self.assertEqual((fleet.DATA / "v1/config.json").read_bytes(), (where / "config.json").read_bytes())

    def test_batonctl(self):
        out = self.fleet.publish("v1", "--optimizer-step", 7)
        self.assertEqual("1", str(out["seq"]))

    def test_unknown_model(self):
        with self.assertRaisesRegex(baton.NotFound, "model"):
            self.publisher("a", "nobody").publish_directory(fleet.DATA / "v1")
        with self.assertRaisesRegex(baton.NotFound, "model"):
            self.publisher("a", "nobody").publish({"w": ("F32", [1], bytes(4))})

    def test_other_bytes_under_one_request_id(self):
        self.a.publish_directory(fleet.DATA / "v1", request_id="same")
        version = self.a.publish_directory(fleet.DATA / "v2", request_id="same")
        self.assertEqual((1, True), (version.seq, version.repeated))

    def test_race(self):
        """Two publishers through two agents: every publish has a seq of its own."""
        results, failures = [], []

        def run(publisher, versions):
            try:
                results.extend(publisher.publish_directory(fleet.DATA / v).seq for v in versions)
            except Exception as exc:  # pylint: disable=broad-except
                failures.append(exc)

        threads = [threading.Thread(target=run, args=(p, v)) for p, v in ((self.a, ["v1", "v2"] * 3), (self.b, ["v2", "v3"] * 3))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual([], failures)
        self.assertEqual(list(range(1, 13)), sorted(results))
        self.assertEqual(list(range(1, 13)), self.seqs())


class BadCheckpoints(Publishing):
    def test_damage_is_named(self):
        whole = self.copy("v1")
        self.refused(baton.NotFound, "nowhere", "/nowhere/at/all")
        file = whole / "model.safetensors"
        raw = file.read_bytes()
        file.write_bytes(raw[:-100])
        self.refused(baton.InvalidArgument, r"model\.safetensors", whole)
        file.write_bytes(raw + b"x")
        self.refused(baton.InvalidArgument, r"model\.safetensors", whole)
        file.write_bytes(struct.pack("<Q", 1 << 40) + raw[8:])
        self.refused(baton.InvalidArgument, r"model\.safetensors", whole)
        file.write_bytes(raw[:8] + b"[" + raw[9:])
        self.refused(baton.InvalidArgument, r"model\.safetensors", whole)
        file.write_bytes(raw)
        (whole / "config.json").unlink()
        self.refused(baton.BatonError, r"config\.json", whole)

    def test_duplicate_name(self):
        whole = self.copy("v1")
        text = b'{"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"a":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}}'
        (whole / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + b"xy")
        self.refused(baton.InvalidArgument, r"model\.safetensors.*(twice|duplicate|double)", whole)

    def test_missing_shard(self):
        whole = self.copy("v2")
        (whole / "model-00002-of-00002.safetensors").unlink()
        self.refused(baton.BatonError, r"model-00002-of-00002\.safetensors", whole)

    def test_partial_directory(self):
        self.a.publish_directory(fleet.DATA / "v2")
        v2, v3 = read_checkpoint(fleet.DATA / "v2"), read_checkpoint(fleet.DATA / "v3")
        folder = self.fleet.dir / "partial"
        folder.mkdir()
        write_safetensors(folder / "model.safetensors", {n: t for n, t in v3.items() if t != v2[n]})
        partial = self.a.publish_directory(folder, partial=True)
        whole = self.b.publish_directory(fleet.DATA / "v3")
        self.assertEqual((2, whole.digest), (partial.seq, partial.digest))
        self.assertLess(partial.bytes_carried, partial.bytes)
        write_safetensors(folder / "model.safetensors", {"stranger": ("F32", [1], bytes(4))})
        self.refused(baton.FailedPrecondition, "stranger", folder, partial=True)


class Tensors(Publishing):
    def test_retry_after_another_publish(self):
        """The parent is fixed by the first try, also if a newer version came before the second."""
        v1, v2 = read_checkpoint(fleet.DATA / "v1"), read_checkpoint(fleet.DATA / "v2")
        self.a.publish_directory(fleet.DATA / "v1")
        name = next(iter(v1))
        first = self.a.publish({name: v2[name]}, partial=True, request_id="part")
        self.a.publish_directory(fleet.DATA / "v2")
        again = self.b.publish({name: v2[name]}, partial=True, request_id="part")
        self.assertEqual((2, first.digest, True), (again.seq, again.digest, again.repeated))
        self.assertEqual([1, 2, 3], self.seqs())

    def test_whole_and_partial(self):
        """Whatever way the bytes take, the version is the same: its digest says so."""
        v1, v2, v3 = (read_checkpoint(fleet.DATA / v) for v in ("v1", "v2", "v3"))
        with self.assertRaisesRegex(baton.InvalidArgument, r"config\.json"):
            self.a.publish(v1)
        first = self.a.publish(v1, files=fleet.DATA / "v1", optimizer_step=1)
        second = self.a.publish(v2, optimizer_step=2)
        changed = {name: tensor for name, tensor in v3.items() if tensor != v2[name]}
        self.assertTrue(0 < len(changed))
        third = self.b.publish(changed, partial=True, optimizer_step=3)
        inline = self.b.publish(changed, partial=True, parent=2, inline=True)
        self.assertEqual([1, 2, 3, 4], [first.seq, second.seq, third.seq, inline.seq])
        wholes = [self.a.publish_directory(fleet.DATA / v).digest for v in ("v1", "v2", "v3")]
        self.assertEqual([*wholes, wholes[2]], [first.digest, second.digest, third.digest, inline.digest])
        self.assertEqual(sum(len(t[2]) for t in changed.values()), third.bytes_carried)
        version = next(v for v in self.fleet.get("versions") if v.get("seq") == "3")
        self.assertEqual(("2", True), (version["parentSeq"], version["partial"]))
        self.assertEqual(v3, read_checkpoint(third.directory))

    def test_refused_tensors(self):
        v1 = read_checkpoint(fleet.DATA / "v1")
        with self.assertRaisesRegex(baton.NotFound, "partial"):
            self.a.publish(v1, partial=True)
        self.a.publish_directory(fleet.DATA / "v1")
        before = self.stored()
        name, (dtype, shape, data) = next((n, t) for n, t in v1.items() if len(t[1]) == 2 and t[1][0] != t[1][1])
        for tensors, words in (
            ({"stranger": ("F32", [1], bytes(4))}, "tensor 'stranger': the parent, m@1, has none"),
            ({name: (dtype, shape[::-1], data)}, f"tensor '{name}': {dtype} .*in the parent"),
            ({name: ("I16", shape, data)}, f"tensor '{name}': I16 .*in the parent, m@1, {dtype}"),
            ({name: (dtype, shape, data[:-2])}, f"tensor '{name}': {len(data) - 2} bytes were given"),
            ({name: ("F7", shape, data)}, "dtype 'F7' is not one of safetensors"),
        ):
            with self.assertRaisesRegex(baton.BatonError, words) as caught:
                self.a.publish(tensors, partial=True)
            self.assertIn(caught.exception.code, (3, 9))
        for files, words in (({"../x": "a"}, r"\.\./x"), ({"x.safetensors": "a"}, "x.safetensors")):
            with self.assertRaisesRegex(baton.InvalidArgument, words):
                self.a.publish(v1, files=files)
        self.assertEqual((before, [1]), (self.stored(), self.seqs()))

    def test_changed_file(self):
        v1 = read_checkpoint(fleet.DATA / "v1")
        self.a.publish(v1, files=fleet.DATA / "v1")
        version = self.a.publish(v1, files={"generation_config.json": '{"max_new_tokens": 5}'})
        where = pathlib.Path(version.directory)
        self.assertEqual('{"max_new_tokens": 5}', (where / "generation_config.json").read_text())
        self.assertEqual((fleet.DATA / "v1/config.json").read_bytes(), (where / "config.json").read_bytes())

    def test_trainer_dies(self):
        """A trainer that dies before it handed over all leaves nothing, and the agent goes on."""
        code = (
            "import os, sys, baton, baton.publisher as p\n"
            "pub = baton.Publisher('m', agent=sys.argv[1])\n"
            "def tensors():\n"
            "    yield 'w', ('U8', [1 << 20], bytes(1 << 20))\n"
            "    os.kill(os.getpid(), 9)\n"
            "said = pub._facts({})\n"
            "pending = pub._start(pub._connect(), 'baton_publish_begin', said, 0)\n"
            "p._hand_over(pending, tensors(), None, {})\n"
        )
        env = {**os.environ, "PYTHONPATH": str(fleet.ROOT / "api/python")}
        done = subprocess.run([sys.executable, "-c", code, self.a.agent], env=env, check=False)
        self.assertEqual(-9, done.returncode)
        fleet.wait_until("the upload is dropped", lambda: self.a.agent_info()["publishing"] == 0 and not self.stored())
        self.assertEqual([], self.seqs())
        self.assertEqual(1, self.a.publish_directory(fleet.DATA / "v1").seq)


class Patience(Publishing):
    """A controller that hangs holds up nothing for longer than was asked for."""

    def stop_controller(self):
        pid = self.fleet.controller.popen.pid
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(os.kill, pid, signal.SIGCONT)
        return pid

    def test_timeout_then_again(self):
        pid = self.stop_controller()
        with self.assertRaises(baton.DeadlineExceeded) as caught:
            self.a.publish_directory(fleet.DATA / "v1", request_id="late", timeout=1)
        self.assertIn("late", caught.exception.hint)
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(1, self.a.publish_directory(fleet.DATA / "v1", request_id="late").seq)
        self.assertEqual([1], self.seqs())

    def test_cancel(self):
        pid = self.stop_controller()
        phases = []

        def stop(progress):
            phases.append(progress.phase)
            return len(phases) == 2

        with self.assertRaises(baton.Cancelled):
            self.a.publish_directory(fleet.DATA / "v1", progress=stop)
        os.kill(pid, signal.SIGCONT)
        fleet.wait_until("the publish ended", lambda: self.a.agent_info()["publishing"] == 0 and not self.stored())
        self.assertEqual([], self.seqs())

    def test_one_request_id_twice_at_once(self):
        pid = self.stop_controller()
        said = {"files": fleet.DATA / "v1", "request_id": "twin"}
        tensors = read_checkpoint(fleet.DATA / "v1")
        results = []
        threads = [
            threading.Thread(target=lambda: results.append(self.a.publish_directory(fleet.DATA / "v1", request_id="twin"))),
            threading.Thread(target=lambda: results.append(self.a.publish(tensors, **said))),
            threading.Thread(target=lambda: results.append(self.b.publish(tensors, **said))),
        ]
        for thread in threads:
            thread.start()
        fleet.wait_until("agent a works on two", lambda: self.a.agent_info()["publishing"] == 2)
        os.kill(pid, signal.SIGCONT)
        for thread in threads:
            thread.join()
        self.assertEqual([1, 1, 1], [r.seq for r in results])
        self.assertEqual(1, len({r.digest for r in results}))
        self.assertEqual([1], self.seqs())

    def test_trainer_dies_after_it_handed_over(self):
        pid = self.stop_controller()
        code = "import os, sys, baton; baton.Publisher('m', agent=sys.argv[1]).publish_directory(sys.argv[2], wait=False); os._exit(0)"
        env = {**os.environ, "PYTHONPATH": str(fleet.ROOT / "api/python")}
        subprocess.run([sys.executable, "-c", code, self.a.agent, str(fleet.DATA / "v1")], env=env, check=True)
        os.kill(pid, signal.SIGCONT)
        fleet.wait_until("the version is there", lambda: self.seqs() == [1])


class Crashes(Publishing):
    """kill -9 at many instants of a publish; the same request id again, until it is through, gives one version."""

    def publish_through_a_crash(self, number, delay, crash):
        """How often it had to be tried."""
        thread = threading.Timer(delay, crash)
        thread.start()
        tries, deadline = 1, time.monotonic() + 60 * fleet.PATIENCE
        try:
            while True:
                try:
                    self.version = self.a.publish_directory(fleet.DATA / "v1", request_id=f"crash-{number}", attempts=1)
                    return tries
                except baton.Unavailable:
                    self.assertLess(time.monotonic(), deadline)
                    tries += 1
                    time.sleep(0.01)
        finally:
            thread.join()

    def restart(self, process):
        process.kill()
        process.start()

    def crash_at_many_instants(self, process):
        began = time.monotonic()
        self.publish_through_a_crash(0, 0, lambda: None)
        longest = time.monotonic() - began
        tries = 0
        for i in range(1, INSTANTS + 1):
            delay = RANDOM.uniform(0, longest * 1.2)
            tries += self.publish_through_a_crash(i, delay, lambda: self.restart(process))
            self.assertEqual(i + 1, self.version.seq)
        self.fleet.wait_controller()
        self.assertEqual(list(range(1, INSTANTS + 2)), self.seqs())
        fleet.wait_until(lambda: f"nothing else is left: {self.stored()}", lambda: self.stored() == {self.version.digest})
        return tries - INSTANTS

    def test_agent_dies(self):
        self.assertGreater(self.crash_at_many_instants(self.fleet.agents["a"]), 0, "no publish was hit")

    def test_controller_dies(self):
        # The agent waits for the controller, so the trainer need not try again.
        self.crash_at_many_instants(self.fleet.controller)


@unittest.skipUnless(os.geteuid() == 0, "mounting a small file system needs root")
class FullDisk(Publishing):
    def setUp(self):
        self.fleet = Sources("a")
        self.addCleanup(self.fleet.close)
        versions = str(self.fleet.dir / "versions")
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", versions], capture_output=True, check=False)
        if done.returncode != 0:
            self.skipTest("this machine does not let us mount a small file system")
        self.addCleanup(subprocess.run, ["umount", "-l", versions], check=True)
        self.fleet.start()
        self.a = self.publisher("a")

    def test_full_disk(self):
        with self.assertRaises(baton.ResourceExhausted) as caught:
            self.a.publish_directory(fleet.DATA / "v1")
        self.assertEqual("NO_SPACE", caught.exception.reason)
        self.assertIn("versions", caught.exception.hint)
        with self.assertRaises(baton.ResourceExhausted):
            self.a.publish(read_checkpoint(fleet.DATA / "v1"), files=fleet.DATA / "v1")
        self.assertEqual((set(), []), (self.stored(), self.seqs()))


if __name__ == "__main__":
    unittest.main()
