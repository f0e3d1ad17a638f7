#!/usr/bin/env python3
"""How long a trainer on a GPU is held up by a publish: 8B weights in bf16, as torch has them.

usage: figures_publisher.py PYTHON_PACKAGES
One JSON line a figure, as gpu_suite's.  "Handed over" is what baton.Publisher does before publish(wait=False) returns:
each tensor fetched, and written into shared memory.
"""

import json
import os
import statistics
import sys
import time

import torch

sys.path.insert(0, sys.argv[1])

from baton import Snapshot, _tensors  # noqa: E402

RUNS, SLOW_RUNS = 5, 1
# Qwen3-8B: 36 layers of 11, embedding, output, norm.
LAYER = [(4096, 4096), (1024, 4096), (1024, 4096), (4096, 4096), (12288, 4096), (12288, 4096), (4096, 12288)]
NORMS = [(4096,), (4096,), (128,), (128,)]
SHAPES = [(151936, 4096), (151936, 4096), (4096,)] + (LAYER + NORMS) * 36


def median(work, runs=RUNS):
    """Seconds, after one run to warm up."""
    times = []
    for _ in range(runs + 1):
        torch.cuda.synchronize()
        began = time.monotonic()
        kept = work()
        times.append(time.monotonic() - began)
        del kept
    return statistics.median(times[1:])


def figure(name, value, anchor, anchor_value, target=0.0):
    """GB/s, beside an anchor of the same run."""
    line = {"name": name, "value": round(value, 1), "unit": "GB/s"}
    line.update(anchor=anchor, anchor_value=round(anchor_value, 1), ratio=round(value / anchor_value, 3))
    line.update(target=target, met=value >= target)
    print(json.dumps(line), flush=True)
    return line["met"]


def write(memory, data, size, place):
    """As libbaton: a copy into a file of shared memory.  Segments have an end; here they are used again."""
    os.pwrite(memory, memoryview((_tensors.ctypes.c_char * size).from_address(data)), place % (1 << 30))
    return place + size


def hand_over(weights):
    memory, place = os.memfd_create("figures"), 0
    for tensor in _tensors.prepared(weights.items()):
        place = write(memory, tensor.data, tensor.bytes, place)
    os.close(memory)


def hand_over_one_by_one(weights):
    memory, place = os.memfd_create("figures"), 0
    for tensor in weights.values():
        here = tensor.cpu()
        place = write(memory, here.data_ptr(), here.numel() * here.element_size(), place)
    os.close(memory)


def snapshot(weights, placement):
    """Until the device is done: what the trainer's next step waits for."""
    kept = Snapshot(weights, placement=placement)
    torch.cuda.synchronize()
    return kept


def copied(target, source):
    target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()


def main():
    weights = {f"t{i}": torch.full(shape, i, dtype=torch.bfloat16, device="cuda") for i, shape in enumerate(SHAPES)}
    size = sum(t.numel() * t.element_size() for t in weights.values()) / 1e9
    flat = torch.empty(4 << 30, dtype=torch.uint8, device="cuda")
    other, pinned = torch.empty_like(flat), torch.empty(flat.shape, dtype=torch.uint8, pin_memory=True)
    on_device = flat.numel() / 1e9 / median(lambda: copied(other, flat))
    link = flat.numel() / 1e9 / median(lambda: copied(pinned, flat))
    del other, pinned, flat
    torch.cuda.empty_cache()
    held_up = size / median(lambda: snapshot(weights, "gpu"))
    met = figure("publisher_snapshot_gpu", held_up, "copy on the device", on_device, 1820)  # 16.38 GB in 9 ms.
    held_up = size / median(lambda: snapshot(weights, "host"))
    met &= figure("publisher_snapshot_host", held_up, "copy to pinned memory", link)
    slow = size / median(lambda: hand_over_one_by_one(weights), SLOW_RUNS)
    fetched = size / median(lambda: hand_over(weights), SLOW_RUNS)
    met &= figure("publisher_handed_over", fetched, "tensor.cpu(), one by one", slow)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
