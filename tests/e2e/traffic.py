#!/usr/bin/env python3
"""Asks engines without pause and says what came of it; for the quickstart and the end-to-end tests.

usage: traffic.py [--model NAME] [--tokens N] [--seconds MAX] [--patience SECONDS] [--out FILE] NAME=URL...

Sends only to loopback. One thread an engine, one request after another: greedy, with log-probabilities. Ends on SIGTERM or after --seconds
(default 600), then prints one JSON object: requests, failed, by engine; --out gets one JSON line for each answer. A request that is not answered
within --patience (default 60) has failed.
"""

import argparse
import http.client
import json
import signal
import sys
import threading
import time
import urllib.parse

PROMPTS = ["The conductor lifts the baton and ", "When the trainer has new weights, ", "A group that serves the old version "]


class Engine(threading.Thread):
    """One engine's requests, until told to stop."""

    def __init__(self, name, url, options, stop, record):
        super().__init__(daemon=True)
        self.name, self.url = name, urllib.parse.urlsplit(url)
        if self.url.hostname not in ("127.0.0.1", "localhost", "::1"):
            raise SystemExit(f"traffic: {url} is not on loopback")
        self.options, self.stop, self.record = options, stop, record
        self.requests = self.failed = 0
        self.slowest_ms = 0.0

    def ask(self, prompt):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=self.options.patience)
        body = {"model": self.options.model, "prompt": prompt, "max_tokens": self.options.tokens, "temperature": 0, "logprobs": 1}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            response = connection.getresponse()
            return response.status, dict(response.getheaders()), response.read()
        finally:
            connection.close()

    def once(self, prompt):
        started = time.monotonic()
        line = {"engine": self.name, "at": time.time(), "prompt": prompt}
        try:
            status, headers, body = self.ask(prompt)
            lower = {k.lower(): v for k, v in headers.items()}
            line.update(status=status, version=lower.get("x-baton-version"), version_end=lower.get("x-baton-version-end"))
            if status == 200:
                choice = json.loads(body)["choices"][0]
                line.update(text=choice["text"], logprobs=choice["logprobs"]["token_logprobs"], finish=choice["finish_reason"])
            else:
                line["error"] = body.decode("utf-8", "replace")[:300]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            line.update(status=0, error=f"{type(error).__name__}: {error}")
        line["ms"] = 1000 * (time.monotonic() - started)
        return line

    def run(self):
        while not self.stop.is_set():
            line = self.once(PROMPTS[self.requests % len(PROMPTS)])
            self.requests += 1
            self.failed += line["status"] != 200
            self.slowest_ms = max(self.slowest_ms, line["ms"])
            self.record(line)
            if line["status"] != 200:
                self.stop.wait(0.05)


def parse():
    parser = argparse.ArgumentParser(description="Asks engines without pause.")
    parser.add_argument("--model", default="default")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--patience", type=float, default=60)
    parser.add_argument("--out")
    parser.add_argument("engines", nargs="+", metavar="NAME=URL")
    return parser.parse_args()


def main():
    options, stop, lock = parse(), threading.Event(), threading.Lock()
    out = open(options.out, "w", encoding="utf-8", buffering=1) if options.out else None

    def record(line):
        if out is not None:
            with lock:
                out.write(json.dumps(line) + "\n")

    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    signal.signal(signal.SIGINT, lambda *_: stop.set())
    threads = [Engine(*pair.split("=", 1), options, stop, record) for pair in options.engines]
    for thread in threads:
        thread.start()
    until = time.monotonic() + options.seconds
    while not stop.wait(0.2) and time.monotonic() < until:
        pass  # A signal that another thread was given is handled when this one wakes up.
    stop.set()
    for thread in threads:
        thread.join(timeout=options.patience + 5)
    print(
        json.dumps(
            {
                "requests": sum(t.requests for t in threads),
                "failed": sum(t.failed for t in threads),
                "slowest_ms": round(max(t.slowest_ms for t in threads), 1),
                "engines": {t.name: {"requests": t.requests, "failed": t.failed} for t in threads},
            }
        )
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
