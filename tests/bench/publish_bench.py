#!/usr/bin/env python3
"""How long publish(wait=False) holds up a trainer on a CPU: 512 MiB of tensors, against one copy of the same bytes into new memory.

A real controller and agent. In turn; between the rounds the agent works off what it was given, which is not the trainer's time.
"""

import ctypes
import mmap
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "api/python"))
import fleet  # noqa: E402

os.environ.setdefault("BATON_LIB", str(fleet.BUILD / "api/client/libbaton.so"))
import baton  # noqa: E402
from pause_bench import line  # noqa: E402
from publisher_test import Sources  # noqa: E402

TENSORS, TENSOR_BYTES, ROUNDS = 32, 16 << 20, 5
TARGET = 1.2


def make_array():
    array = bytearray(os.urandom(1 << 20) * (TENSOR_BYTES >> 20))
    return memoryview(array), ctypes.addressof(ctypes.c_char.from_buffer(array))


def copy(arrays):
    """One memcpy of everything into memory that is new, as a snapshot needs it; seconds."""
    began = time.perf_counter()
    for _, source in arrays:
        target = mmap.mmap(-1, TENSOR_BYTES)
        address = ctypes.addressof(ctypes.c_char.from_buffer(target))
        ctypes.memmove(address, source, TENSOR_BYTES)
        KEPT.append(target)
    return time.perf_counter() - began


KEPT = []  # Until the end of a round: unmapping is not copying.


def main():
    arrays = [make_array() for _ in range(TENSORS)]
    given = {f"w{i}": view for i, (view, _) in enumerate(arrays)}
    pairs = []
    with Sources("a") as rig:
        rig.start()
        publisher = baton.Publisher(rig.model, agent=f"unix:{rig.dir}/a.sock")
        for _ in range(ROUNDS + 1):
            plain = copy(arrays)
            KEPT.clear()
            began = time.perf_counter()
            pending = publisher.publish(given, files=fleet.DATA / "v1", wait=False)
            pairs.append((plain, time.perf_counter() - began))
            pending.result()
    ratio = statistics.median(ours / plain for plain, ours in pairs[1:])
    milliseconds = [1000 * statistics.median(column) for column in zip(*pairs[1:])]
    line("publish_stall", milliseconds[1], "one memcpy into new memory", milliseconds[0], None)
    return 0 if line("publish_stall_ratio", ratio, "one memcpy into new memory", 1, TARGET) else 1


if __name__ == "__main__":
    sys.exit(main())
