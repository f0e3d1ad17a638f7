#!/usr/bin/env python3
"""Calls one method as fast as it can for some seconds, with an empty request, and counts how the calls ended.

usage: flood.py TARGET CA CERT KEY [--method M] [--seconds S] [--open N]
  prints {"code": count, ...}, with the last refusal's message and google.rpc.Status (hex) as "message" and "details"
"""

import argparse
import collections
import json
import sys
import threading
import time

import grpc

WAIT_S = 30


def connect(target, ca, cert, key):
    """A channel of its own connection, with that certificate."""
    texts = [open(path, "rb").read() for path in (ca, key, cert)]
    options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost")]
    return grpc.secure_channel(target, grpc.ssl_channel_credentials(*texts), options)


class Flood:
    """At most 'most' calls are open at one time."""

    def __init__(self, channel, method, most):
        self.call = channel.unary_unary(f"/{method}", request_serializer=bytes, response_deserializer=bytes)
        self.places, self.lock = threading.Semaphore(most), threading.Lock()
        self.codes, self.refusal = collections.Counter(), None

    def ended(self, future):
        with self.lock:
            self.codes[future.code().name] += 1
            if future.code() == grpc.StatusCode.RESOURCE_EXHAUSTED:
                self.refusal = future
        self.places.release()

    def run(self, seconds):
        until, most = time.monotonic() + seconds, 0
        while time.monotonic() < until:
            self.places.acquire()
            self.call.future(b"", timeout=WAIT_S).add_done_callback(self.ended)
            most += 1
        while sum(self.codes.values()) < most:
            time.sleep(0.01)

    def result(self):
        found = dict(self.codes)
        if self.refusal is not None:
            details = dict(self.refusal.trailing_metadata()).get("grpc-status-details-bin", b"")
            found.update(message=self.refusal.details(), details=details.hex())
        return found


def main():
    parser = argparse.ArgumentParser()
    for word in ("target", "ca", "cert", "key"):
        parser.add_argument(word)
    parser.add_argument("--method", default="baton.v1.Models/List")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--open", type=int, default=200)
    said = parser.parse_args()
    flood = Flood(connect(said.target, said.ca, said.cert, said.key), said.method, said.open)
    flood.run(said.seconds)
    print(json.dumps(flood.result()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
