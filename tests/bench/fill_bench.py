#!/usr/bin/env python3
"""How fast a fleet feeds itself: nodes in network namespaces with limited links, and one source.

Real agents and one controller. Value: from the publication until the last node has the version verified; anchor: one copy of as many bytes over
one such link, by sendfile, in the same run. Beside it: how often the source sent the version.
"""

import argparse
import json
import os
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from links import LinkedFleet, Links  # noqa: E402

TARGET = 1.3


def measure(nodes, mbit, mib):
    links = Links([f"node-{i:02}" for i in range(nodes + 1)], mbit)
    try:
        links.make()
        with LinkedFleet(links) as fleet:
            fleet.start()
            fleet.wait_connected()
            fleet.publish("v1")
            fleet.wait_serving(1, seconds=300)
            large = fleet.large(mib)
            copy_s = links.time_copy(large / "padding.txt")
            before = links.sent()
            digest = fleet.publish(large)["digest"]
            began = time.monotonic()
            fleet.wait_filled(digest, 60 + 20 * copy_s)
            fill_s = time.monotonic() - began
            source = (links.sent()[fleet.source()] - before[fleet.source()]) / (mib << 20)
            return fill_s, copy_s, source
    finally:
        links.remove()


def main():
    words = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    words.add_argument("--nodes", type=int, default=16, help="that are filled")
    words.add_argument("--mbit", type=int, default=200, help="of each link, each way")
    words.add_argument("--mib", type=int, default=384, help="of the version")
    given = words.parse_args()
    if not Links.can_be_had():
        print("fill_bench: network namespaces with limited links need root, iproute2 and the kernel's tbf", file=sys.stderr)
        return 2
    fill_s, copy_s, source = measure(given.nodes, given.mbit, given.mib)
    ratio = round(fill_s / copy_s, 3)
    line = {"name": "fill", "value": round(fill_s, 2), "unit": "s", "nodes": given.nodes, "mbit": given.mbit, "mib": given.mib}
    line |= {"anchor": "one copy over one link", "anchor_value": round(copy_s, 2), "ratio": ratio, "target": TARGET, "met": ratio <= TARGET}
    print(json.dumps(line | {"load": round(os.getloadavg()[0], 1)}))
    print(json.dumps({"name": "fill_source", "value": round(source, 3), "unit": "models sent by the source", "target": 2, "met": source < 2}))
    return 0 if ratio <= TARGET and source < 2 else 1


if __name__ == "__main__":
    sys.exit(main())
