#!/usr/bin/env python3
"""How much of a group's pause is Baton's own: gate shut, less what the agent waited for the engine, less its journal's fsync.

Real processes, a miniengine of one rank, no traffic; medians over the swaps. The anchor is the engine's own part of the same swaps.
"""

import json
import pathlib
import statistics
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fleet import Fleet  # noqa: E402

SWAPS = 15
TARGET_MS = 10


def measure():
    phases = []
    with Fleet({"node-a": {"g0": [1]}}) as fleet:
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        for i in range(SWAPS):
            seq = fleet.publish("v2" if i % 2 == 0 else "v1")["seq"]
            fleet.wait_serving(seq)
            phases.append({k: int(v) / 1e6 for k, v in fleet.group_items()["g0"]["lastSwap"]["phases"].items()})
    return phases


def line(name, value, anchor, anchor_value, target):
    met = value <= target if target is not None else True
    print(
        json.dumps(
            {
                "name": name, "value": round(value, 3), "unit": "ms", "anchor": anchor, "anchor_value": round(anchor_value, 3),
                "ratio": round(value / anchor_value, 3) if anchor_value else None, "target": target, "met": met,
            }
        )
    )
    return met


def main():
    phases = measure()
    median = lambda f: statistics.median(f(p) for p in phases)
    engine = median(lambda p: p.get("engineNs", 0))
    control = median(lambda p: p["shutNs"] - p.get("engineNs", 0) - p.get("journalNs", 0))
    met = line("pause_control_share", control, "engine's part of the pause", engine, TARGET_MS)
    line("pause_journal_fsync", median(lambda p: p.get("journalNs", 0)), "engine's part of the pause", engine, None)
    line("pause_whole", median(lambda p: p["shutNs"]), "engine's part of the pause", engine, None)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
