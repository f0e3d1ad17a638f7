"""Baton's engine with faults on demand, for the live tests: everything but the fault is the product.

Backend ``baton-faulty``.  The file named by BATON_FAULT_FILE, when it exists, holds one object:
{"kind": "raise" | "drop" | "damage", "rank": r, "at": n}: at the n-th tensor of a load, on rank r,
raise; leave the tensor out; or load another value."""

import json
import os

from baton.vllm.engine import BatonEngine


def register():
    from vllm.distributed.weight_transfer.factory import WeightTransferEngineFactory

    WeightTransferEngineFactory.register_engine("baton-faulty", "baton_faulty", "FaultyEngine")


def _fault():
    try:
        with open(os.environ["BATON_FAULT_FILE"], encoding="utf-8") as source:
            return json.load(source)
    except FileNotFoundError:
        return None


class FaultyEngine(BatonEngine):
    def _weights(self, version):
        fault = _fault()
        for place, (name, tensor) in enumerate(super()._weights(version)):
            if fault is not None and (fault["rank"], fault["at"]) == (self._peers.rank, place):
                if fault["kind"] == "raise":
                    raise RuntimeError(f"fault: rank {self._peers.rank} fails at {name}")
                if fault["kind"] == "drop":
                    continue
                tensor = tensor + 1
            yield name, tensor
