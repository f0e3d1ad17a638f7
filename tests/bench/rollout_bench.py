#!/usr/bin/env python3
"""What baton.Rollout adds to a request: generate() of one token, and the same request over a bare kept connection, in turn.

Real processes, a miniengine of one rank, one request at a time. The figure is the difference of the medians.
"""

import http.client
import json
import pathlib
import statistics
import sys
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "e2e"))
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "api/python"))
import baton  # noqa: E402
from fleet import Fleet  # noqa: E402
from pause_bench import line  # noqa: E402

REQUESTS, WARM = 1000, 50
TARGET_MS = 1
PROMPT = list(b"The conductor lifts the baton and ")


class Bare:
    """What a program without Baton would do."""

    def __init__(self, url):
        where = urllib.parse.urlsplit(url)
        self.connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
        self.body = json.dumps({"prompt": PROMPT, "max_tokens": 1, "logprobs": 0, "temperature": 0, "return_token_ids": True}).encode()

    def ask(self):
        self.connection.request("POST", "/v1/completions", self.body, {"Content-Type": "application/json"})
        answer = json.loads(self.connection.getresponse().read())
        assert len(answer["choices"][0]["token_ids"]) == 1


def timed(call):
    began = time.perf_counter()
    call()
    return 1000 * (time.perf_counter() - began)


def main():
    with Fleet({"node-a": {"g0": [1]}}) as fleet:
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        with baton.Rollout(fleet.model, server=fleet.server) as rollout:
            bare = Bare(fleet.engines["g0.e0"])
            ours = lambda: rollout.generate(PROMPT, max_tokens=1, temperature=0)
            pairs = [(timed(bare.ask), timed(ours)) for _ in range(REQUESTS + WARM)][WARM:]
    without, with_it = (statistics.median(column) for column in zip(*pairs))
    return 0 if line("rollout_adds_p50", with_it - without, "the bare request", without, TARGET_MS) else 1


if __name__ == "__main__":
    sys.exit(main())
