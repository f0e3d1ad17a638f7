#!/usr/bin/env python3
"""Resident memory of an idle controller and an idle agent with one serving group. The anchor is the aim of 20 MiB each."""

import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fleet import Fleet  # noqa: E402

AIM_MIB = 20


def rss_mib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) / 1024
    raise AssertionError("no VmRSS")


def main():
    met = True
    with Fleet({"node-a": {"g0": [1]}}) as fleet:
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        time.sleep(2)
        for name, process in (("rss_controller_idle", fleet.controller), ("rss_agent_idle", fleet.agents["node-a"])):
            value = rss_mib(process.popen.pid)
            good = value <= AIM_MIB
            met &= good
            print(
                json.dumps(
                    {
                        "name": name, "value": round(value, 1), "unit": "MiB", "anchor": "aim", "anchor_value": AIM_MIB,
                        "ratio": round(value / AIM_MIB, 2), "target": AIM_MIB, "met": good,
                    }
                )
            )
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
