"""What the live tests share: servers, landings, the agent's sequence, the questions."""

import atexit
import itertools
import os
import shutil
import tempfile
import threading
import time
import unittest

import asking
import landings
import servers
from asking import PROMPTS

RANKS = (1, 2)


class Fleet:
    """One server a rank count, started from v1, and what fresh servers answer on v1 and v2."""

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="baton-vllm-")
        self.server, self.fresh, self._all = {}, asking.noted(), []
        # Also when the run is ended from outside: run_tests.py turns SIGTERM into an exit.
        atexit.register(self.stop)
        self.landing = {v: landings.land(self.root, v, v) for v in ("v1", "v2", "v3")}

    def launch(self, name, checkpoint, ranks, **more):
        """A server that is not ready yet; stopped with the fleet."""
        server = servers.Server(self.root, name, checkpoint, ranks, **more)
        self._all.append(server)
        return server

    def start(self):
        """All servers come up at once; those on v2 only where no fresh one was asked before, and they
        answer once and go."""
        if self.server:
            return
        self.server = {r: self.launch(f"tp{r}", landings.checkpoint("v1"), r) for r in RANKS}
        missing = [r for r in RANKS if (r, "v2") not in self.fresh]
        new = {r: self.launch(f"tp{r}-v2", landings.checkpoint("v2"), r) for r in missing}
        for ranks, server in new.items():
            self.fresh[ranks, "v2"] = answers(server.wait_ready())
            server.stop()

    def ready(self, ranks):
        """The server of so many ranks, once it answers."""
        self.start()
        server = self.server[ranks].wait_ready()
        if (ranks, "v1") not in self.fresh:
            self.fresh[ranks, "v1"] = answers(server)
        return server

    def stop(self):
        for server in self._all:
            server.stop()
        shutil.rmtree(self.root, ignore_errors=True)


def ask(server, prompt, **more):
    return server.call("POST", "/v1/completions", asking.body(prompt), **more)


def answers(server):
    """What is said to every prompt, under a fresh salt, past the gate."""
    return [asking.said(ask(server, prompt, token=True).json) for prompt in PROMPTS]


class Asking:
    """Two clients that ask without pause while a block runs; it begins once the engine is at work.  Two, so that
    one is inside while the other is between two requests."""

    def __init__(self, server, tokens):
        self._server, self._tokens, self._stop = server, tokens, threading.Event()
        self._answers = []  # (asked, answered, status, tokens)
        self._threads = [threading.Thread(target=self._ask) for _ in range(2)]

    def _ask(self):
        while not self._stop.is_set():
            asked = time.monotonic()
            body = asking.body(PROMPTS[0], self._tokens)
            found = self._server.call("POST", "/v1/completions", body, token=True)
            count = found.json["usage"]["completion_tokens"] if found.status == 200 else 0
            self._answers.append((asked, time.monotonic(), found.status, count))

    def _running(self):
        lines = self._server.call("GET", "/metrics").text.splitlines()
        counts = [x.split()[-1] for x in lines if x.startswith("vllm:num_requests_running{")]
        return any(float(count) > 0 for count in counts)

    def __enter__(self):
        for thread in self._threads:
            thread.start()
        while all(thread.is_alive() for thread in self._threads) and not self._running():
            time.sleep(0.01)
        return self

    def __exit__(self, *_):
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def outcomes(self):
        """{(status, tokens)}"""
        return {(status, tokens) for _, _, status, tokens in self._answers}

    def was_inside(self, when):
        """Whether a request was under way then."""
        return any(asked < when < answered for asked, answered, _, _ in self._answers)


class LiveCase(unittest.TestCase):
    """One running server; every test leaves it on v1, sound and resumed."""

    fleet = None
    ranks = 1
    _ticket = itertools.count(1)

    @classmethod
    def setUpClass(cls):
        cls.server = cls.fleet.ready(cls.ranks)
        cls.last = cls.ranks - 1

    @classmethod
    def tearDownClass(cls):
        cls.server.stop()

    def tearDown(self):
        self.server.no_fault()

    def fence(self):
        return [1, 1, 1, next(self._ticket), 1]

    def report(self):
        return self.server.rpc("baton_report")

    def pause(self):
        self.server.control("/pause?mode=keep&clear_cache=true")
        self.assertTrue(self.server.call("GET", "/is_paused", token=True).json["is_paused"])

    def resume(self):
        self.server.control("/resume")
        self.assertFalse(self.server.call("GET", "/is_paused", token=True).json["is_paused"])

    def update(self, landing, fence=None):
        """Stage what a landing (folder, digest) holds; returns the ranks' reports."""
        folder, digest = landing
        info = {"landing": folder, "version_digest": digest, "fence": fence or self.fence()}
        self.server.control("/update_weights", {"update_info": info})
        return self.report()

    def start_and_update(self, landing, fence=None):
        self.server.control("/start_weight_update")
        return self.update(landing, fence)

    def finish(self):
        self.server.control("/finish_weight_update")
        return self.report()

    def swap(self, version):
        """The agent's whole sequence (engine contract, section 3), but for its journal."""
        server, (_, digest) = self.server, self.fleet.landing[version]
        self.pause()
        for rank in self.start_and_update(self.fleet.landing[version]):
            self.assertTrue(rank["staged"]["ok"], rank["staged"])
        for rank in self.finish():
            self.assertTrue(rank["applied"]["ok"], rank["applied"])
            self.assertEqual(rank["resident"], {"version_digest": digest, "level": "resident"})
            self.assertEqual((rank["readback"]["ok"], rank["readback"]["tensors"]), (True, 47))
        flushed = server.control("/reset_prefix_cache?reset_running_requests=true")
        self.assertTrue(flushed["success"])
        server.control("/update_weight_version", {"new_version": version})
        label = server.call("GET", "/weight_info", token=True).json
        self.assertEqual(label["weight_version"], version)
        self.resume()

    def serves(self, version):
        """To the bit what a fresh server on that version answers."""
        self.assertEqual(answers(self.server), self.fleet.fresh[self.ranks, version])

    def in_step(self):
        """Every rank answers the call that was made, not the one before it."""
        reports = self.report()
        self.assertEqual([rank["rank"] for rank in reports], list(range(self.ranks)))
        self.assertEqual(self.server.rpc("check_health"), [None] * self.ranks)

    def refuses(self, landing, code, tensor=None):
        """A landing is refused at staging on every rank, and the finish after it does nothing."""
        before = self.report()[0]["applied"]
        for rank in self.start_and_update(landing):
            error = rank["staged"]["error"]
            self.assertFalse(rank["staged"]["ok"])
            self.assertEqual(error["code"], code, error)
            self.assertEqual(error["rank"], rank["rank"])
            if tensor is not None:
                self.assertEqual(error["tensor"], tensor)
        for rank in self.finish():
            self.assertFalse(rank["session"])
        self.assertEqual(self.report()[0]["applied"], before)
        self.in_step()

    def land(self, name, version, change=None):
        folder = os.path.join(self.fleet.root, name)
        if os.path.exists(folder):
            shutil.rmtree(folder)
        return landings.land(self.fleet.root, name, version, change)
