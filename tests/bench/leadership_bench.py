#!/usr/bin/env python3
"""How long nobody leads when a leader is told to stop, and how long until the next ticket when it is killed in a roll.

Three controllers on one etcd, two agents, four groups that are swapped one after another; --runs of each (default 20). Times are those of
the logs. The anchor is the aim: 200 ms without a leader, 3 s to the next ticket; 'value' is the median, 'worst' the longest.
"""

import argparse
import json
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
from fleet import wait_until  # noqa: E402
from several import LEADS_NO_LONGER, Several  # noqa: E402

NOBODY_AIM_MS, TICKET_AIM_MS = 200, 3000


def hand_over(fleet):
    """From the leader's last moment to the next one's first, in ms."""
    leader = fleet.wait_leader()
    leader.stop()
    next_one = fleet.wait_leader(but=leader)
    ended = next(fleet.time_of(line) for line in reversed(fleet.lines_of(leader)) if LEADS_NO_LONGER in line)
    begun = [fleet.time_of(line) for line in fleet.lines_of(next_one) if "core started" in line][-1]
    leader.start()
    return 1000 * (begun - ended)


def fail_over(fleet, version):
    """From the kill in a roll to the next ticket, in ms."""
    leader = fleet.wait_leader()
    seq = int(fleet.publish(version)["seq"])
    wait_until("a ticket is out", lambda: any("TicketIssued" in line and f"-> {seq} " in line for line in fleet.lines_of(leader)), every=0.001)
    before = [c for c in fleet.controllers if c is not leader]
    marks = {c.name: len(fleet.lines_of(c)) for c in before}
    leader.kill()
    killed = time.time()

    def ticket():
        found = [fleet.time_of(x) for c in before for x in fleet.lines_of(c)[marks[c.name] :] if "TicketIssued" in x]
        return min(found) if found else None

    at = wait_until(lambda: f"the next ticket\n{fleet.tails()}", ticket)
    leader.start()
    fleet.wait_serving(seq)
    return 1000 * (at - killed)


def show(name, values, aim):
    value = statistics.median(values)
    line = {
        "name": name, "value": round(value, 1), "unit": "ms", "anchor": "aim", "anchor_value": aim, "ratio": round(value / aim, 2),
        "target": aim, "met": value <= aim, "worst": round(max(values), 1), "runs": len(values),
    }
    print(json.dumps(line), flush=True)
    return line["met"]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--runs", type=int, default=20)
    runs = parser.parse_args().runs
    with Several({"a": {"g0": [1], "g1": [1]}, "b": {"g2": [1], "g3": [1]}}) as fleet:
        fleet.start_all()
        fleet.publish("v1")
        fleet.wait_serving(1)
        met = show("leadership_hand_over", [hand_over(fleet) for _ in range(runs)], NOBODY_AIM_MS)
        met &= show("leadership_fail_over_ticket", [fail_over(fleet, f"v{2 + i % 2}") for i in range(runs)], TICKET_AIM_MS)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
