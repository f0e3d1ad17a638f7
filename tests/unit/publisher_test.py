#!/usr/bin/env python3
"""baton.Publisher over libbaton against a recording local server (local_recorder_main.c).

usage: publisher_test.py RECORDER LIBBATON_SO PYTHON_PACKAGES [unittest arguments]
"""

import ctypes
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import threading
import time
import unittest

RECORDER, LIBRARY, PACKAGES = sys.argv[1:4]
os.environ["BATON_LIB"] = LIBRARY
sys.path.insert(0, PACKAGES)

import baton  # noqa: E402

try:
    import numpy
except ImportError:
    numpy = None
try:
    import torch
except ImportError:
    torch = None


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return f"{crc ^ 0xFFFFFFFF:08x}"


def floats(*values):
    import array

    return memoryview(array.array("f", values))


class Recorded(unittest.TestCase):
    refused = []

    def setUp(self):
        self.folder = tempfile.TemporaryDirectory(prefix="baton-publisher-")
        self.addCleanup(self.folder.cleanup)
        self.address = f"unix:{self.folder.name}/agent.sock"
        self.server = subprocess.Popen(
            [RECORDER, self.address, *self.refused], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.addCleanup(self.server.wait)
        self.addCleanup(self.server.kill)
        self.addCleanup(self.server.stdout.close)
        self.addCleanup(self.server.stdin.close)
        self.assertEqual("ready\n", self.server.stdout.readline())
        self.publisher = baton.Publisher("m", agent=self.address)

    def say(self, word):
        self.server.stdin.write(word + "\n")
        self.server.stdin.flush()
        self.assertEqual("ok\n", self.server.stdout.readline())

    def recorded(self):
        """Ends the server; its lines by the word that each begins with, entries by name."""
        self.server.stdin.close()
        lines = [line.split() for line in self.server.stdout.read().splitlines()]
        entries = {line[1]: " ".join(line[2:]) for line in lines if line[0] == "entry"}
        return entries, {line[0]: " ".join(line[1:]) for line in lines if line[0] != "entry"}


class Publish(Recorded):
    def test_tensors_and_files(self):
        view = floats(1, 2, 3, 4, 5, 6).cast("B").cast("f", shape=[2, 3])
        version = self.publisher.publish(
            {"a": view, "empty": floats()},
            files={"config.json": "{}", "vocab.txt": b"a\nb"},
            optimizer_step=12,
            rollout_iteration=3,
            request_id="once",
        )
        self.assertEqual((7, "m", False), (version.seq, version.model, version.repeated))
        self.assertEqual("00112233445566778899aabbccddeeff", version.uid)
        entries, said = self.recorded()
        self.assertEqual(f"F32 [2,3] 24 {crc32c(view.tobytes())}", entries["a"])
        self.assertEqual("F32 [0] 0 00000000", entries["empty"])
        self.assertEqual(f"file [] 2 {crc32c(b'{}')}", entries["config.json"])
        self.assertEqual(f"file [] 3 {crc32c(bytes([97, 10, 98]))}", entries["vocab.txt"])
        self.assertEqual("m once step 12 iteration 3 partial 0 directory ''", said["request"])

    def test_inline(self):
        self.publisher.publish({"a": floats(1, 2)}, inline=True, partial=True)
        entries, said = self.recorded()
        self.assertEqual(f"F32 [2] 8 {crc32c(floats(1, 2).tobytes())}", entries["a"])
        self.assertIn("partial 1", said["request"])

    def test_files_of_a_directory(self):
        folder = pathlib.Path(self.folder.name, "checkpoint")
        folder.mkdir()
        for name in ("config.json", "model.safetensors", "README.md", ".hidden", "model.safetensors.index.json"):
            (folder / name).write_text("x")
        self.publisher.publish({"a": floats(1)}, files=folder)
        entries, _ = self.recorded()
        self.assertEqual({"a", "config.json"}, set(entries))

    def test_directory(self):
        seen = []
        version = self.publisher.publish_directory("/some/checkpoint", progress=seen.append)
        self.assertEqual(7, version.seq)
        _, said = self.recorded()
        self.assertIn("directory '/some/checkpoint'", said["request"])

    def test_progress_and_cancel(self):
        self.say("block")
        phases = []

        def stop_at_third(progress):
            phases.append((progress.phase, progress.bytes_total))
            return len(phases) == 3

        with self.assertRaises(baton.Cancelled):
            self.publisher.publish_directory("/c", progress=stop_at_third)
        self.assertIn(("copying", 1000000000), phases)
        _, said = self.recorded()
        self.assertIn("cancelled 1", said["begun"])

    def test_exception_in_callback(self):
        self.say("block")

        def fail(_progress):
            raise ZeroDivisionError("mine")

        with self.assertRaisesRegex(ZeroDivisionError, "mine"):
            self.publisher.publish({"a": floats(1)}, progress=fail)
        _, said = self.recorded()
        self.assertIn("committed 0", said["begun"])

    def test_interrupt(self):
        self.say("block")
        timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            self.publisher.publish_directory("/c")
        timer.join()
        _, said = self.recorded()
        self.assertIn("cancelled 1", said["begun"])

    def test_without_waiting(self):
        self.say("block")
        memory = bytearray(floats(1, 2).tobytes())
        pending = self.publisher.publish({"a": memoryview(memory)}, wait=False, request_id="later")
        memory[:] = bytes(8)  # The trainer goes on.
        self.assertEqual("later", pending.request_id)
        with self.assertRaises(baton.DeadlineExceeded):
            pending.result(timeout=0.05)
        self.say("free")
        self.assertEqual(7, pending.result().seq)
        self.assertEqual(7, pending.result().seq)
        entries, _ = self.recorded()
        self.assertEqual(f"U8 [8] 8 {crc32c(floats(1, 2).tobytes())}", entries["a"])

    def test_agent_info(self):
        info = self.publisher.agent_info()
        self.assertEqual(("agent-1", True, 3), (info["name"], info["connected"], info["publishing"]))

    def test_bad_arguments(self):
        with self.assertRaisesRegex(baton.InvalidArgument, "tensor 'x': a list is no tensor"):
            self.publisher.publish({"x": [1, 2]})
        with self.assertRaisesRegex(baton.InvalidArgument, "model: 'No Name'"):
            baton.Publisher("No Name", agent=self.address).publish({"a": floats(1)})
        with self.assertRaises(TypeError):
            self.publisher.publish({"a": floats(1)}, optimiser_step=1)
        _, said = self.recorded()
        self.assertIn("committed 0", said["begun"])

    def test_after_fork(self):
        child = os.fork()
        if child == 0:
            try:
                os._exit(0 if self.publisher.publish({"a": floats(1)}).seq == 7 else 1)
            finally:
                os._exit(2)
        self.assertEqual(0, os.waitpid(child, 0)[1])


class Refused(Recorded):
    refused = ["b"]

    def test_refused_tensor(self):
        with self.assertRaises(baton.InvalidArgument) as caught:
            self.publisher.publish({"a": floats(1), "b": floats(2)})
        self.assertEqual("INCOMPATIBLE", caught.exception.reason)
        self.assertIn("tensor 'b': not in the parent", str(caught.exception))


class Lost(unittest.TestCase):
    def test_no_agent(self):
        with tempfile.TemporaryDirectory() as folder:
            with self.assertRaises(baton.Unavailable) as caught:
                baton.Publisher("m", agent=f"unix:{folder}/none.sock").publish({"a": floats(1)})
        self.assertIn("baton-agent", caught.exception.hint)
        self.assertIsInstance(caught.exception, ConnectionError)

    def test_light_import(self):
        code = "import sys, baton; print(sorted(m for m in sys.modules if m in ('ctypes', 'torch', 'numpy')))"
        out = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": PACKAGES}, capture_output=True, text=True)
        self.assertEqual("[]\n", out.stdout, out.stderr)


@unittest.skipIf(numpy is None, "numpy is not installed")
class Numpy(Recorded):
    def test_arrays(self):
        grid = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
        tensors = {
            "plain": grid,
            "transposed": grid.T,
            "big": grid.astype(">f4"),
            "scalar": numpy.array(3, dtype=numpy.int64),
            "half": grid.astype(numpy.float16),
            "bool": grid > 3,
        }
        self.publisher.publish(tensors)
        entries, _ = self.recorded()
        self.assertEqual(f"F32 [3,4] 48 {crc32c(grid.tobytes())}", entries["plain"])
        self.assertEqual(f"F32 [4,3] 48 {crc32c(grid.T.tobytes())}", entries["transposed"])
        self.assertEqual(entries["plain"], entries["big"])
        self.assertEqual(f"I64 [] 8 {crc32c((3).to_bytes(8, 'little'))}", entries["scalar"])
        self.assertTrue(entries["half"].startswith("F16 [3,4] 24 "))
        self.assertTrue(entries["bool"].startswith("BOOL [3,4] 12 "))


@unittest.skipIf(torch is None, "torch is not installed")
class Torch(Recorded):
    def test_tensors(self):
        grid = torch.arange(12, dtype=torch.float32).reshape(3, 4)
        bf16 = grid.to(torch.bfloat16)
        self.publisher.publish(
            {
                "plain": torch.nn.Parameter(grid),
                "transposed": grid.t(),
                "slice": grid[1:, 1:3],
                "bf16": bf16,
                "fp8": grid.to(torch.float8_e4m3fn),
                "count": torch.tensor(5),
            }
        )
        entries, _ = self.recorded()
        raw = grid.numpy()
        self.assertEqual(f"F32 [3,4] 48 {crc32c(raw.tobytes())}", entries["plain"])
        self.assertEqual(f"F32 [4,3] 48 {crc32c(raw.T.tobytes())}", entries["transposed"])
        self.assertEqual(f"F32 [2,2] 16 {crc32c(raw[1:, 1:3].tobytes())}", entries["slice"])
        self.assertEqual(f"BF16 [3,4] 24 {crc32c(bf16.view(torch.int16).numpy().tobytes())}", entries["bf16"])
        self.assertTrue(entries["fp8"].startswith("F8_E4M3 [3,4] 12 "))
        self.assertTrue(entries["count"].startswith("I64 [] 8 "))

    def test_cast_and_tied(self):
        weight = torch.nn.Parameter(torch.ones(2, 2))
        self.publisher.publish(
            {"embed": weight, "lm_head": weight, "count": torch.tensor([1])}, dtype="bfloat16"
        )
        entries, _ = self.recorded()
        self.assertEqual({"embed", "count"}, set(entries))
        self.assertTrue(entries["embed"].startswith("BF16 [2,2] 8 "))
        self.assertTrue(entries["count"].startswith("I64 "))

    def test_an_iterator_may_free_or_fill_again_what_it_gave(self):
        """Each is another tensor, though it lies where one before was; only the same one under two names is left out."""
        buffer, weight = torch.zeros(3), torch.ones(2)

        def passing():
            for i in range(32):
                yield f"fresh{i}", torch.full((64, 64), float(i))
            for i in range(4):
                yield f"filled{i}", buffer.fill_(i)
            yield from (("embed", weight), ("lm_head", weight.detach()))

        self.publisher.publish(passing())
        entries, _ = self.recorded()
        self.assertEqual({*(f"fresh{i}" for i in range(32)), *(f"filled{i}" for i in range(4)), "embed"}, set(entries))
        for i in range(4):
            self.assertEqual(f"F32 [3] 12 {crc32c(floats(i, i, i).tobytes())}", entries[f"filled{i}"])
        self.assertEqual(len(entries), len({entries[name] for name in entries}))

    def test_refusals(self):
        with self.assertRaisesRegex(baton.InvalidArgument, "'x': device meta"):
            self.publisher.publish({"x": torch.empty(2, device="meta")})
        with self.assertRaisesRegex(baton.InvalidArgument, "'x': .*sparse"):
            self.publisher.publish({"x": torch.eye(2).to_sparse()})

    def test_snapshot(self):
        weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
        then = weight.numpy().tobytes()
        snapshot = baton.Snapshot({"a": torch.nn.Parameter(weight), "tied": weight, "b": weight.t()})
        weight.zero_()
        self.assertEqual(("host", 48), (snapshot.placement, snapshot.bytes))
        self.publisher.publish(snapshot)
        entries, _ = self.recorded()
        self.assertEqual({"a", "b"}, set(entries))
        self.assertEqual(f"F32 [2,3] 24 {crc32c(then)}", entries["a"])

    def test_snapshot_refusals(self):
        with self.assertRaisesRegex(baton.InvalidArgument, "'x': device meta"):
            baton.Snapshot({"x": torch.empty(2, device="meta")})
        with self.assertRaisesRegex(baton.InvalidArgument, "'x': a memoryview"):
            baton.Snapshot({"x": floats(1)})
        with self.assertRaisesRegex(ValueError, "placement"):
            baton.Snapshot({}, placement="disk")


RANK = """
import json, sys, time
import torch, torch.distributed as dist
import baton
rank, agent, folder, timeout = int(sys.argv[1]), sys.argv[2], sys.argv[3], float(sys.argv[4])
dist.init_process_group("gloo", init_method=f"file://{folder}/ranks", rank=rank, world_size=2)

class Odd(Exception):
    def __init__(self, one, two):
        super().__init__(one + two)

class Broken(list):
    def __iter__(self):
        yield "a", torch.ones(1)
        if rank == 1:
            raise Odd("it", " broke")

part = torch.ones(2, 3) if rank == 0 else torch.ones(0, 3)
publisher = baton.Publisher("m", agent=agent, ranks="all", rank_timeout=timeout)
for given, options in (
    (Broken(), {}),
    ([("a", torch.ones(1))], {"files": f"{folder}/none-at-{rank}"}),
    ([("a", torch.eye(2).to_sparse() if rank == 1 else torch.ones(2, 2))], {}),
    ([("part", part, baton.Shard(0, rank, 2))], {}),
):
    if given and given[-1][0] == "part":
        sys.stdin.readline()
    try:
        said = publisher.publish(given, **options).seq
    except baton.BatonError as error:
        said = error.message
    print(json.dumps(said), flush=True)
"""


@unittest.skipIf(torch is None, "torch is not installed")
class Ranks(Recorded):
    """Two ranks and one agent: nobody is left waiting, whatever goes wrong at whom, and however long the agent takes."""

    TIMEOUT = 20

    def test_two_ranks(self):
        env = {**os.environ, "PYTHONPATH": PACKAGES, "OMP_NUM_THREADS": "1"}
        argv = [sys.executable, "-W", "ignore", "-c", RANK]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        words = [self.address, self.folder.name, str(self.TIMEOUT)]
        ranks = [subprocess.Popen([*argv, str(rank), *words], env=env, **pipes) for rank in range(2)]
        for rank in ranks:
            self.addCleanup(rank.communicate)
            self.addCleanup(rank.kill)
        refused = [json.loads(ranks[0].stdout.readline()) for _ in range(3)]
        self.say("block")  # The last one is with the agent for longer than a rank waits for another.
        for rank in ranks:
            rank.stdin.write("go on\n")
            rank.stdin.flush()
        self.assertEqual("rank 1: it broke", refused[0])
        self.assertRegex(refused[1], "^rank 0: .*none-at-0")
        self.assertRegex(refused[2], "^rank 1: tensor 'a': .*sparse")
        time.sleep(self.TIMEOUT + 5)
        self.say("free")
        self.assertEqual(7, json.loads(ranks[0].stdout.readline()))
        self.assertEqual([*refused, 7], [json.loads(line) for line in ranks[1].communicate(timeout=300)[0].splitlines()])
        self.assertTrue(self.recorded()[0]["part"].startswith("F32 [2,3] 24 "))


class Placement(unittest.TestCase):
    """Where a snapshot goes, by what is free."""

    def choose(self, *pairs):
        from baton import snapshot

        return snapshot.choose({f"cuda:{i}": need for i, (need, _) in enumerate(pairs)},
                               {f"cuda:{i}": room for i, (_, room) in enumerate(pairs)})

    def test_each_gpu_must_have_room(self):
        big = 16 << 30
        self.assertEqual("gpu", self.choose((big, big + (1 << 30)))[0])
        placement, why = self.choose((1, big), (big, big + (1 << 30) - 1))
        self.assertEqual("host", placement)
        self.assertIn("cuda:1", why)
        self.assertIn(str(big), why)
        self.assertEqual("host", self.choose()[0])


@unittest.skipIf(torch is None or not torch.cuda.is_available(), "no torch, or no GPU")
class Gpu(Recorded):
    def weights(self):
        grid = torch.arange(3 * 1024 * 1024, dtype=torch.float32).reshape(3072, 1024)
        return {"big": grid, "turned": grid[:64].t(), "bf16": grid[:100].to(torch.bfloat16), "none": grid[:0]}

    def published(self, tensors, **keywords):
        self.publisher.publish(tensors, **keywords)
        return self.recorded()[0]

    def expected(self, dtype=None):
        """Lines as of tensors on the CPU."""
        names = {torch.float32: "F32", torch.bfloat16: "BF16"}
        found = {}
        for name, tensor in self.weights().items():
            tensor = tensor.to(dtype or tensor.dtype).contiguous()
            shape = ",".join(map(str, tensor.shape))
            data = tensor.reshape(-1).view(torch.uint8).numpy().tobytes()
            found[name] = (f"{names[tensor.dtype]} [{shape}] {len(data)}", data)
        return found

    def check(self, entries, dtype=None):
        for name, (line, data) in self.expected(dtype).items():
            # The crc in Python takes a microsecond a byte: the big one is compared elsewhere.
            self.assertTrue(entries[name].startswith(line), entries[name])
            if len(data) < 1 << 20:
                self.assertEqual(f"{line} {crc32c(data)}", entries[name])

    def test_same_as_from_the_cpu(self):
        there = {name: tensor.cuda() for name, tensor in self.weights().items()}
        there["turned"] = there["big"][:64].t()
        self.check(self.published(there))

    def test_cast(self):
        there = {name: tensor.cuda() for name, tensor in self.weights().items()}
        self.check(self.published(there, dtype="bfloat16"), torch.bfloat16)

    def test_snapshots_keep_what_was(self):
        from baton import _tensors

        for placement in ("gpu", "host", None):
            there = {name: tensor.cuda() for name, tensor in self.weights().items()}
            snapshot = baton.Snapshot(there, placement=placement)
            for tensor in there.values():
                tensor.zero_()
            self.assertEqual(placement or "gpu", snapshot.placement)
            for name, tensor in self.weights().items():
                self.assertTrue(torch.equal(tensor, snapshot[name].cpu()), (placement, name))
            for got, (line, data) in zip(_tensors.prepared(snapshot.items()), self.expected().values()):
                self.assertTrue(line.startswith(got.dtype), line)
                self.assertEqual(data, bytes((ctypes.c_char * got.bytes).from_address(got.data)) if got.bytes else b"")

    def test_another_thread_publishes_while_training_goes_on(self):
        there = {name: tensor.cuda() for name, tensor in self.weights().items()}
        snapshot = baton.Snapshot(there)
        thread = threading.Thread(target=self.publisher.publish, args=(snapshot,))
        thread.start()
        for _ in range(100):
            for tensor in there.values():
                tensor.add_(1)
        thread.join()
        self.check(self.recorded()[0])


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[4:])
