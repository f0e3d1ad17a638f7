"""How long etcd answered. What must come true needs a quorum that does, and a machine that starves thirty daemons leaves none: deadlines count this time."""

import json
import threading
import time
import urllib.request

PAUSE_S, ANSWER_S = 0.5, 0.5
SETTLED_S = 3  # After this long a leader has its lease: what comes before does not count.
HARD = 8  # A deadline is over after so many times its length in any case.


class StoreClock:
    """Asks from the hub, which no fault of the network reaches. seconds() grows only while most members answer in time, each through its quorum."""

    def __init__(self, urls):
        self.urls, self.body = urls, json.dumps({"key": "AA=="}).encode()
        self.counted, self.since, self.lock = 0.0, None, threading.Lock()
        self.stopping = threading.Event()
        self.thread = threading.Thread(target=self.work, daemon=True)

    def start(self):
        self.thread.start()
        return self

    def stop(self):
        self.stopping.set()
        if self.thread.is_alive():
            self.thread.join()

    def answers(self, url):
        try:
            with urllib.request.urlopen(urllib.request.Request(f"{url}/v3/kv/range", self.body), timeout=ANSWER_S) as answer:
                return answer.status == 200
        except OSError:
            return False

    def look(self):
        began = time.monotonic()
        is_well = sum(map(self.answers, self.urls)) * 2 > len(self.urls)
        with self.lock:
            if not is_well:
                self.counted += self.settled()
                self.since = None
            elif self.since is None:
                self.since = began

    def settled(self):
        return max(0.0, time.monotonic() - self.since - SETTLED_S) if self.since is not None else 0.0

    def seconds(self):
        with self.lock:
            return self.counted + self.settled()

    def work(self):
        while not self.stopping.wait(PAUSE_S):
            self.look()

    def deadline(self, seconds):
        """A function: whether so many of these seconds have passed."""
        began, until, hard = time.monotonic(), self.seconds() + seconds, time.monotonic() + HARD * seconds

        def is_over():
            return self.seconds() >= until or time.monotonic() >= hard

        is_over.told = lambda: f"etcd answered for {self.seconds() + seconds - until:.0f} of {time.monotonic() - began:.0f} s"
        return is_over
