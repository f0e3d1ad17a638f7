#!/usr/bin/env python3
"""vLLM's own trainer-side factory with the backend "baton": what it publishes is the checkpoint; what is wrong is said."""

import types
import unittest
from unittest import mock

import fleet
import torch
import transformers
from publisher_test import Publishing
from vllm.distributed.weight_transfer.base import ModuleSource
from vllm.distributed.weight_transfer.factory import WeightTransferTrainerFactory

import baton
import baton.vllm
from baton import _entries

V1, V2 = fleet.DATA / "v1", fleet.DATA / "v2"


class Part(ModuleSource):
    """As of one pipeline stage."""

    def held_names(self):
        return ["model.norm.weight"]


class Factory(Publishing):
    def engine(self, source):
        baton.vllm.register()
        from baton.vllm.trainer import BatonTrainerInitInfo

        info = BatonTrainerInitInfo(model="m", agent=self.a.agent, files=V1, rank=0)
        return WeightTransferTrainerFactory.trainer_init(info, client=None, source=source)

    def test_a_module_is_published_each_round(self):
        model = transformers.AutoModelForCausalLM.from_pretrained(V1, dtype=torch.bfloat16)
        engine = self.engine(ModuleSource(model))
        self.assertEqual(self.a.publish_directory(V1).digest, engine.send_weights(optimizer_step=1).digest)
        model.load_state_dict(transformers.AutoModelForCausalLM.from_pretrained(V2, dtype=torch.bfloat16).state_dict())
        engine.send_weights(optimizer_step=2)
        self.assertEqual((3, self.a.publish_directory(V2).digest), (engine.version.seq, engine.version.digest))
        self.assertEqual("2", next(v for v in self.fleet.get("versions") if v["seq"] == "3")["optimizerStep"])

    def test_what_is_wrong_is_said(self):
        layer = torch.nn.Linear(2, 2)
        layer.bias.data[0] = float("nan")
        with self.assertRaisesRegex(baton.FailedPrecondition, "tensor 'bias': NaN"):
            self.engine(ModuleSource(layer)).send_weights()
        with self.assertRaisesRegex(ValueError, "WeightSource"):
            self.engine(None)
        with self.assertRaisesRegex(ValueError, "baton.Publisher"):
            self.engine(Part(layer))
        self.assertEqual([], self.seqs())


class Ranks(unittest.TestCase):
    def test_the_sender_is_the_first_rank_of_the_job(self):
        """Else its failure were nobody's."""
        from baton.vllm import trainer

        job = types.SimpleNamespace(rank=1, tell=lambda value: value)
        info = trainer.BatonTrainerInitInfo(model="m", rank=0)
        with mock.patch.object(trainer._ranks, "job", lambda _: job), mock.patch.object(trainer, "Publisher"):
            engine = trainer.BatonTrainer(info, client=None, source=[])
            with self.assertRaisesRegex(ValueError, "rank 0 of BatonTrainerInitInfo"):
                engine.send_weights()


class Passing(unittest.TestCase):
    """A source that puts each tensor together and forgets it: the next one has its memory."""

    def test_what_follows_in_freed_memory_is_not_taken_for_tied(self):
        def made():
            for i in range(8):
                yield f"w{i}", torch.full((512, 512), float(i))

        names = [name for name, _, _ in _entries.untied(_entries.entries(made()))]
        self.assertEqual([f"w{i}" for i in range(8)], names)

    def test_tied_tensors_are_left_out_also_of_an_iterator(self):
        weight = torch.zeros(4, 4)
        given = iter([("embed", weight.detach()), ("head", weight.detach()), ("other", torch.zeros(4, 4))])
        self.assertEqual(["embed", "other"], [name for name, _, _ in _entries.untied(_entries.entries(given))])


if __name__ == "__main__":
    unittest.main()
