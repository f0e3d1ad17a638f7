#!/usr/bin/env python3
"""What a flood of one identity costs the others: how long until an agent's report is seen, with and without it.

One controller over TLS, a session with an agent's certificate, a follower of events with an operator's; the time is from sending a
report with an event to that event at the follower. In turn, --rounds times: nobody else calls; two processes flood another controller
on this machine with a viewer's certificate, as fast as they can (the anchor: what their use of the processors costs); they flood this one. They have the lowest priority: real ones are elsewhere.
'value' is the 99th percentile in ms, 'ratio' the median of the rounds' ratios of medians; 'refused' is the part of the flood's calls that was.
"""

import argparse
import json
import pathlib
import queue
import statistics
import subprocess
import sys
import threading
import time

sys.path[:0] = [str(pathlib.Path(__file__).resolve().parents[1] / name) for name in ("e2e", "conformance")]
import grpc  # noqa: E402
from fleet import ROOT  # noqa: E402
from flood import connect  # noqa: E402
from rpc_reflect import Reflected  # noqa: E402
from security_test import SecureFleet  # noqa: E402

RATIO_AIM = 2
WAIT_S, GAP_S, FLOODERS, SETTLE_S = 30, 0.005, 2, 1.0
AGENT = "node-c"


class Secure(Reflected):
    """The same over a channel that is given."""

    def __init__(self, channel):
        plain = grpc.insecure_channel
        grpc.insecure_channel = lambda *_, **__: channel
        try:
            super().__init__("")
        finally:
            grpc.insecure_channel = plain


def files_of(fleet, who):
    pair = fleet.pair(who)
    return [fleet.server, pair["ca"], pair["cert"], pair["key"]]


class Heart:
    """An agent's session, and a follower who sees its events."""

    def __init__(self, fleet):
        agent, operator = (Secure(connect(*files_of(fleet, who))) for who in (AGENT, "ada"))
        follow, request, _ = operator.method("baton.v1.Fleet/Events")
        session, self.message, _ = agent.method("baton.v1.AgentSession/Session")
        self.up, self.seen, self.count = queue.Queue(), queue.Queue(), 0
        self.up.put(self.message(hello={"agent": AGENT, "protocol": 1, "software": "flood_bench", "journal_incarnation": "1"}))
        answers = session(iter(self.up.get, None))
        assert next(answers).HasField("welcome")
        self.start(lambda: [None for _ in answers])
        self.start(lambda: [self.seen.put((e.message, time.monotonic())) for e in follow(request(object=f"agent/{AGENT}", follow=True))])
        self.beat()

    @staticmethod
    def start(work):
        def run():
            try:
                work()
            except grpc.RpcError:
                pass  # Cancelled at the end.

        threading.Thread(target=run, daemon=True).start()

    def beat(self):
        """Seconds from a report to its event at the follower."""
        self.count += 1
        text, began = f"beat {self.count}", time.monotonic()
        event = {"object": f"agent/{AGENT}", "type": "Normal", "reason": "Beat", "message": text}
        self.up.put(self.message(report={"events": [event]}))
        while True:
            found, at = self.seen.get(timeout=WAIT_S)
            if found == text:
                return at - began

    def beats(self, count):
        found = []
        for _ in range(count):
            found.append(1000 * self.beat())
            time.sleep(GAP_S)
        return found


class Flood:
    """Processes that flood a fleet's controller from begin to end of the block."""

    def __init__(self, fleet, seconds):
        self.argv = ["nice", "-n", "19", "/usr/bin/python3", str(ROOT / "tests/e2e/flood.py"), *files_of(fleet, "vic"), "--seconds", str(seconds)]
        self.counts = {}

    def __enter__(self):
        self.processes = [subprocess.Popen(self.argv, stdout=subprocess.PIPE, text=True) for _ in range(FLOODERS)]
        time.sleep(SETTLE_S)
        return self

    def __exit__(self, *_):
        for process in self.processes:
            out, _ = process.communicate(timeout=120)
            for code, count in json.loads(out).items():
                if isinstance(count, int):
                    self.counts[code] = self.counts.get(code, 0) + count


def percentile(values, part):
    return sorted(values)[min(len(values) - 1, int(part * len(values)))]


def show(name, values, anchor, anchors, rounds, **more):
    ratio = statistics.median(statistics.median(a) / statistics.median(b) for a, b in rounds)
    line = {
        "name": name, "value": round(percentile(values, 0.99), 2), "unit": "ms", "p50": round(statistics.median(values), 2), "anchor": anchor,
        "anchor_value": round(percentile(anchors, 0.99), 2), "anchor_p50": round(statistics.median(anchors), 2), "ratio": round(ratio, 2), **more,
    }
    print(json.dumps(line), flush=True)
    return line


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--beats", type=int, default=200, help="of each part of a round")
    said = parser.parse_args()
    seconds = SETTLE_S + said.beats * GAP_S * 4
    quiet, elsewhere, flooded, counts, there = [], [], [], {}, {}
    with SecureFleet({"node-a": {"node-a-g0": [1]}}) as fleet, SecureFleet({"node-a": {"node-a-g0": [1]}}) as other:
        fleet.start()
        other.start()
        heart = Heart(fleet)
        for _ in range(said.rounds):
            quiet.append(heart.beats(said.beats))
            for target, into, found in ((other, elsewhere, there), (fleet, flooded, counts)):
                with Flood(target, seconds) as flood:
                    into.append(heart.beats(said.beats))
                for code, count in flood.counts.items():
                    found[code] = found.get(code, 0) + count
    every = lambda parts: [x for part in parts for x in part]
    rate = lambda found: round(sum(found.values()) / said.rounds / seconds)
    show("flood_elsewhere", every(elsewhere), "no flood", every(quiet), list(zip(elsewhere, quiet)), target=None, met=True, calls_a_second=rate(there))
    ratio = statistics.median(statistics.median(a) / statistics.median(b) for a, b in zip(flooded, elsewhere))
    met = ratio <= RATIO_AIM
    show("flood_heartbeat", every(flooded), "the same flood at another controller", every(elsewhere), list(zip(flooded, elsewhere)),
         target=RATIO_AIM, met=met, calls_a_second=rate(counts), refused=round(counts.get("RESOURCE_EXHAUSTED", 0) / sum(counts.values()), 3))
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
