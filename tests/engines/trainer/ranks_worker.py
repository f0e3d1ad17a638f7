"""One rank of a job that publishes, one case after another; what came of each is a line of stdout, as JSON.  usage: ranks_worker.py CHECKPOINT CASE..."""

import json
import os
import sys

import safetensors.torch
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import baton

CHECKPOINT, *CASES = sys.argv[1:]
RANK, SIZE = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
BY_COLUMNS = ("o_proj.weight", "down_proj.weight")


def weights():
    return safetensors.torch.load_file(f"{CHECKPOINT}/model.safetensors")


class Tree(torch.nn.Module):
    """A module whose parameters have the checkpoint's names."""

    def __init__(self, tensors):
        super().__init__()
        for name, value in tensors.items():
            *path, last = name.split(".")
            at = self
            for part in path:
                if not hasattr(at, part):
                    at.add_module(part, torch.nn.Module())
                at = getattr(at, part)
            at.register_parameter(last, torch.nn.Parameter(value))


def fsdp():
    """FSDP2: every parameter is a DTensor; one is split unevenly, one is empty at the last rank, one is tied."""
    tensors = {name: value.float() for name, value in weights().items()}
    model = Tree({**tensors, "extra.uneven": torch.arange(6.0).reshape(3, 2), "extra.short": torch.ones(1, 2)})
    mesh = init_device_mesh("cpu", (SIZE,))
    for layer in getattr(model.model.layers, "_modules").values():
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    state = model.state_dict()
    assert all(hasattr(value, "full_tensor") for value in state.values())
    return {**state, "extra.tied": state["extra.short"]}


def parallel():
    """As Megatron holds it: rows or columns at each rank of a tensor group, norms at both, ends at one pipeline stage."""
    for name, value in weights().items():
        if "embed_tokens" in name or "lm_head" in name:
            if (RANK == 0) == ("embed_tokens" in name):
                yield name, value
        elif value.dim() == 1:
            yield name, value
        else:
            dim = 1 if name.endswith(BY_COLUMNS) else 0
            yield name, value.chunk(SIZE, dim)[RANK].contiguous(), baton.Shard(dim, RANK, SIZE)


def lacking():
    """The second rank has forgotten its part of one tensor."""
    return [item for item in parallel() if RANK == 0 or "layers.2.mlp.up_proj" not in item[0]]


def poisoned():
    for name, value, *placement in parallel():
        if RANK == 1 and "layers.3.mlp.down_proj" in name:
            value = value.clone()
            value[0, 0] = float("nan")
        yield (name, value, *placement)


def optimizer():
    state = weights()
    return {**state, "exp_avg": {"a": 1}} if RANK == 1 else state


def unlike():
    name = "model.norm.weight"
    return {**weights(), name: weights()[name].float() if RANK == 1 else weights()[name]}


def absent():
    if RANK == 1:
        sys.stdin.read()  # Until the test ends it.
    return weights()


GIVEN = {
    "fsdp": fsdp, "parallel": parallel, "lacking": lacking, "poisoned": poisoned, "optimizer": optimizer, "unlike": unlike, "absent": absent,
}  # fmt: skip


def publish(publisher, case):
    dtype = "bfloat16" if case == "fsdp" else None
    pending = publisher.publish(GIVEN[case](), files=CHECKPOINT, dtype=dtype, wait=False, optimizer_step=7)
    first = pending.wait()
    again = publisher.publish(GIVEN[case](), dtype=dtype)
    return {"seqs": [first.seq, again.seq], "digests": [first.digest, again.digest], "directory": first.directory}


def outcome(publisher, case):
    try:
        return publish(publisher, case)
    except baton.BatonError as error:
        return {"error": str(error), "reason": error.reason}


def main():
    dist.init_process_group("gloo", init_method=f"file://{os.environ['BATON_TEST_STORE']}", rank=RANK, world_size=SIZE)
    publisher = baton.Publisher("m", rank_timeout=float(os.environ["BATON_TEST_RANK_TIMEOUT"]))
    for case in CASES:
        print(json.dumps(outcome(publisher, case)), flush=True)
    os._exit(0)  # The other rank may be gone: no farewell that waits for it.


if __name__ == "__main__":
    main()
