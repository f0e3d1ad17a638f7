#!/usr/bin/env python3
"""baton.merged() with PEFT's own layers: what it gives is what PEFT's merge gives, by the base model's names."""

import copy
import unittest

import peft
import torch

import baton
from baton import _entries, _tensors


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(16, 8)
        self.up, self.down, self.head = torch.nn.Linear(8, 12), torch.nn.Linear(12, 8), torch.nn.Linear(8, 16)

    def forward(self, ids):
        return self.head(self.down(self.up(self.embed(ids))))


def adapted(**config):
    """A model with adapters that change something."""
    torch.manual_seed(1)
    model = peft.get_peft_model(Model(), peft.LoraConfig(r=2, lora_alpha=6, **config))
    for name, value in model.named_parameters():
        if "lora_" in name or "modules_to_save" in name:
            torch.nn.init.normal_(value)
    return model


class Merged(unittest.TestCase):
    def check(self, model, names):
        wanted = copy.deepcopy(model).merge_and_unload().state_dict()
        before = {name: value.clone() for name, value in model.state_dict().items()}
        found = dict(baton.merged(model))
        self.assertEqual(set(names), set(found))
        for name, value in found.items():
            torch.testing.assert_close(value, wanted[name])
        for name, value in model.state_dict().items():
            self.assertTrue(torch.equal(before[name], value), f"{name} was changed")

    def test_as_peft_merges(self):
        self.check(adapted(target_modules=["up", "down"]), {"up.weight", "down.weight"})
        self.check(adapted(target_modules=["embed", "up"], use_rslora=True), {"embed.weight", "up.weight"})
        self.check(adapted(target_modules=["up"], modules_to_save=["head"]), {"up.weight", "head.weight", "head.bias"})

    def test_already_merged(self):
        model = adapted(target_modules=["up"])
        wanted = copy.deepcopy(model).merge_and_unload().state_dict()["up.weight"]
        model.merge_adapter()
        torch.testing.assert_close(dict(baton.merged(model))["up.weight"], wanted)

    def test_all_of_them_are_published(self):
        """Each is made anew and freed, the next one where it lay: none is taken for one before, as tied weights are."""
        torch.manual_seed(1)
        model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(16)])
        model = peft.get_peft_model(model, peft.LoraConfig(r=2, target_modules=[str(i) for i in range(16)], init_lora_weights=False))
        passing = _tensors.prepared(_entries.whole(_entries.untied(_entries.entries(baton.merged(model)))), torch.bfloat16)
        self.assertEqual([f"{i}.weight" for i in range(16)], [tensor.name for tensor in passing])

    def test_refusals(self):
        with self.assertRaisesRegex(baton.InvalidArgument, "up' has a DoRA"):
            list(baton.merged(adapted(target_modules=["up"], use_dora=True)))
        for more in ({"bias": "all"}, {"bias": "lora_only"}, {"lora_bias": True}, {"trainable_token_indices": {"embed": [1]}}):
            with self.subTest(more), self.assertRaisesRegex(baton.InvalidArgument, f"'default' has {next(iter(more))}=.*merge_and_unload"):
                list(baton.merged(adapted(target_modules=["up"], **more)))
        with self.assertRaisesRegex(baton.InvalidArgument, "no adapter"):
            list(baton.merged(Model()))


if __name__ == "__main__":
    unittest.main()
