#!/usr/bin/env python3
"""Two ranks of a torch.distributed job (gloo) publish one version together: FSDP2, shards with a layout; what one lacks both are told.

Also: plain modules, a trainer that is killed and started again, beside grpcio's own channel and over a fork."""

import json
import os
import signal
import subprocess
import sys
import unittest

import fleet
import publisher_test
from publisher_test import Publishing, read_checkpoint

import baton

import grpc
import safetensors.torch
import torch

WORKER = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ranks_worker.py")
V1 = fleet.DATA / "v1"


class Together(Publishing):
    """Ranks as processes of their own, which publish through agent a."""

    def start(self, *cases, timeout=900):
        env = {**os.environ, "WORLD_SIZE": "2", "BATON_TEST_STORE": str(self.fleet.dir / "ranks"), "BATON_AGENT": self.a.agent}
        env["BATON_TEST_RANK_TIMEOUT"] = str(timeout)
        argv, pipe = [sys.executable, "-W", "ignore", WORKER, str(V1), *cases], subprocess.PIPE
        processes = [subprocess.Popen(argv, env={**env, "RANK": str(rank)}, stdin=pipe, stdout=pipe, stderr=pipe, text=True) for rank in range(2)]
        for process in processes:
            self.addCleanup(process.communicate)
            self.addCleanup(process.kill)
        return processes

    def said(self, process):
        """What a rank said of each case."""
        out, err = process.communicate(timeout=900 * fleet.PATIENCE)
        self.assertTrue(out.strip(), err[-3000:])
        return [json.loads(line) for line in out.splitlines()]

    def test_one_version_of_two_ranks(self):
        """One job for all: after each refusal the ranks are as before, and go on together."""
        refused = {
            "lacking": ("BAD_FIELD", r"tensor 'model\.layers\.2\.mlp\.up_proj\.weight': no rank has part 1 of 2"),
            "poisoned": ("NON_FINITE", r"tensor 'model\.layers\.3\.mlp\.down_proj\.weight'.*NaN"),
            "optimizer": ("BAD_FIELD", r"rank 1: 'exp_avg' is state of an optimizer.*model\.state_dict"),
            "unlike": ("BAD_FIELD", r"tensor 'model\.norm\.weight': rank 1 has whole float32 \[128\], rank 0 whole bfloat16"),
        }
        ranks = [self.said(process) for process in self.start(*refused, "fsdp", "parallel")]
        for said in ranks:
            self.assertEqual(6, len(said), said)
            for (case, (reason, pattern)), outcome in zip(refused.items(), said):
                self.assertRegex(outcome.get("error", str(outcome)), pattern, case)
                self.assertEqual(reason, outcome["reason"])
        self.assertEqual(ranks[0][4:], ranks[1][4:])
        self.assertEqual([[1, 2], [3, 4]], [outcome["seqs"] for outcome in ranks[0][4:]])
        self.check_fsdp(ranks[0][4])
        self.assertEqual([self.a.publish_directory(V1).digest] * 2, ranks[0][5]["digests"])

    def check_fsdp(self, said):
        self.assertEqual(1, len(set(said["digests"])))
        tensors = read_checkpoint(said["directory"])
        extra = {name: tensors.pop(name) for name in list(tensors) if name.startswith("extra.")}
        self.assertEqual(read_checkpoint(V1), tensors)
        self.assertEqual({"extra.uneven": [3, 2], "extra.short": [1, 2]}, {name: shape for name, (_, shape, _) in extra.items()})
        self.assertEqual(list(range(6)), safetensors.torch.load_file(f"{said['directory']}/model.safetensors")["extra.uneven"].flatten().tolist())

    def test_a_rank_that_does_not_come(self):
        present, _ = self.start("absent", timeout=3)
        (said,) = self.said(present)
        self.assertEqual("RANKS_MISSING", said["reason"], said)
        self.assertRegex(said["error"], "ranks='one'")


class Alone(Publishing):
    def test_modules_pairs_and_refusals(self):
        state = safetensors.torch.load_file(V1 / "model.safetensors")
        layer = torch.nn.Linear(4, 3)
        first = self.a.publish(layer, files=V1)
        self.assertEqual({"weight", "bias"}, set(read_checkpoint(first.directory)))
        pairs = self.a.publish(iter(state.items()))
        self.assertEqual(self.a.publish_directory(V1).digest, pairs.digest)
        optimizer = torch.optim.Adam(layer.parameters())
        for given, words in (
            (optimizer.state_dict(), "optimizer's state_dict.*model's weights alone"),
            ({"model": layer.state_dict(), "step": 3}, "'model' is state of an optimizer, or of a whole checkpoint"),
            ({"a.lora_A.default.weight": torch.ones(1)}, "part of an adapter.*baton.merged"),
            ([("a", torch.ones(1)), ("a", torch.ones(1))], "'a' was given twice"),
            ([("a", torch.ones(1), baton.Shard(0, 0, 2))], "'a': Shard.*other parts are not here.*all ranks"),
            ([("a", torch.ones(1), "rows")], "'a': its placement is 'rows'"),
            ({"a": torch.tensor([1.0, float("inf")])}, "tensor 'a': NaN or infinity"),
        ):
            with self.assertRaisesRegex(baton.BatonError, words):
                self.a.publish(given, files=V1)
        self.assertEqual([1, 2, 3], self.seqs())

    def test_a_trainer_that_is_started_again_goes_on(self):
        """Killed in the middle of a publish: the next life's versions follow on what was published, and no number comes twice."""
        self.a.publish_directory(V1)
        code = "import os, signal, sys, torch, baton\ndef gen():\n yield 'w', torch.ones(1 << 18)\n os.kill(os.getpid(), 9)\n"
        code += "baton.Publisher('m').publish(gen(), partial=True)"
        env = {**os.environ, "BATON_AGENT": self.a.agent}
        self.assertEqual(-signal.SIGKILL, subprocess.run([sys.executable, "-c", code], env=env, check=False).returncode)
        code = "import sys, safetensors.torch, baton\nprint(baton.Publisher('m').publish(safetensors.torch.load_file(sys.argv[1])).seq)"
        done = subprocess.run([sys.executable, "-c", code, str(fleet.DATA / "v1/model.safetensors")], env=env, capture_output=True, text=True, check=True)
        self.assertEqual("2\n", done.stdout, done.stderr)
        version = next(v for v in self.fleet.get("versions") if v["seq"] == "2")
        self.assertEqual("1", version["parentSeq"])
        self.assertEqual([1, 2], self.seqs())

    def test_beside_grpcio_and_over_a_fork(self):
        """grpcio has threads and connections of its own, before and after, in the parent; the child only publishes."""
        with baton.Rollout("m", server=self.fleet.server) as rollout, grpc.insecure_channel(self.fleet.server) as channel:
            grpc.channel_ready_future(channel).result(timeout=60 * fleet.PATIENCE)
            rollout.evaluate([[(1, 1)]])
            self.assertEqual(1, self.a.publish_directory(V1).seq)
            child = os.fork()
            if child == 0:
                try:
                    os._exit(0 if self.a.publish({"a": torch.ones(2)}, files=V1).seq == 2 else 1)
                finally:
                    os._exit(2)
            self.assertEqual(0, os.waitpid(child, 0)[1])
            self.assertEqual(3, self.a.publish({"a": torch.ones(2)}).seq)
            self.assertTrue(rollout.evaluate([[(3, 1)]])[0].accept)


if __name__ == "__main__":
    assert publisher_test
    unittest.main()
