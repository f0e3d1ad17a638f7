#!/usr/bin/env python3
"""What a swap does to requests in progress, to KV and to routers, by policy: each on real processes, read back from answers."""

import http.client
import http.server
import json
import os
import ssl
import threading
import unittest
import urllib.parse

from fleet import Fleet, check_answers, read_answers, wait_until
from tls_test import make_authority, make_certificate

GROUPS = {"node": {"g0": [1]}}
TIMES = {"retryFirst": "200ms", "retryMax": "1s"}
PROMPT = "The conductor lifts the baton and "
LONG = 1500
STEP_MS = 20  # What a step of slow() takes longer: LONG is then half a minute, and a swap falls into it.


class Request(threading.Thread):
    """One long generation, streamed: its tokens' texts, its end, the versions."""

    def __init__(self, url, tokens=LONG, stream=True):
        super().__init__(daemon=True)
        self.url, self.tokens, self.stream = urllib.parse.urlsplit(url), tokens, stream
        self.text, self.count, self.reason, self.error = "", 0, None, None
        self.version = self.version_end = None
        self.start()

    def run(self):
        connection = http.client.HTTPConnection(self.url.hostname, self.url.port, timeout=120)
        body = {"model": "default", "prompt": PROMPT, "max_tokens": self.tokens, "temperature": 0, "ignore_eos": True, "stream": self.stream, "return_token_ids": True}
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            self.version = answer.getheader("x-baton-version")
            if self.stream:
                for line in answer:
                    self.take(line.decode().strip())
            else:
                self.version_end = answer.getheader("x-baton-version-end")
                choice = json.loads(answer.read())["choices"][0]
                self.text, self.reason = choice["text"], choice["finish_reason"]
        except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
            self.error = error
        finally:
            connection.close()

    def take(self, line):
        if line.startswith(": x-baton-version-end "):
            self.version_end = line.rsplit(" ", 1)[1]
        elif line.startswith("data: {"):
            choice = json.loads(line[6:])["choices"][0]
            self.text += choice["text"]
            self.count += len(choice["token_ids"])
            self.reason = choice["finish_reason"] or self.reason

    def wait_tokens(self, count):
        wait_until(f"{count} tokens", lambda: self.count >= count or self.error, every=0.002)
        return self

    def end(self):
        self.join(600)
        assert not self.is_alive(), f"an answer goes on: {self.count} tokens"
        if self.error is not None:
            raise AssertionError(f"the request failed: {self.error!r}")
        return self


class Router(http.server.ThreadingHTTPServer):
    """Answers hooks as 'mode' says; keeps what it was told."""

    daemon_threads = True

    def __init__(self, tls=None):
        self.scheme = "http" if tls is None else "https"
        self.calls, self.mode, self.release = [], {"beforePause": 200, "afterProbe": 200}, threading.Event()
        router = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                told = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                router.calls.append(told)
                mode = router.mode[told["event"]]
                if mode == "hang":
                    router.release.wait(60)
                    mode = 200
                self.send_response(mode)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_):
                pass

        super().__init__(("127.0.0.1", 0), Handler)
        if tls is not None:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"{self.scheme}://127.0.0.1:{self.server_address[1]}/swap"

    def events(self):
        return [call["event"] for call in self.calls]

    def close(self):
        self.release.set()
        self.shutdown()
        self.server_close()


class Policies(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet(GROUPS, faults=True, times=TIMES)
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.url = self.fleet.engines["g0.e0"]

    def swap_record(self):
        return self.fleet.group_items()["g0"].get("lastSwap", {})

    def publish(self, version, seq):
        self.assertEqual(seq, self.fleet.publish(version)["seq"])

    def pure(self, seq, version, prompt=PROMPT):
        """What a new request gets is purely this version's."""
        answer = Request(self.url, tokens=16, stream=False).end()
        self.assertEqual((str(seq), str(seq)), (answer.version, answer.version_end))
        return answer.text

    def inside(self, record, clients):
        """Requests inside, kept, aborted.  The guard counts the agent's own of just before, too, until its answer is wholly sent."""
        counts = tuple(int(record.get(k, 0)) for k in ("requestsInside", "requestsKept", "requestsAborted"))
        self.assertIn(counts[0], (clients, clients + 1))
        return counts

    # --- requests in progress ---

    def slow(self):
        """Answers take long, until fast()."""
        self.fleet.set_fault("g0.e0", kind="slow", phase="step", ms=STEP_MS, sticky=True)

    def fast(self):
        self.fleet.clear_faults("g0.e0")

    def test_keep_spans_versions(self):
        self.fleet.apply_model(inFlight="keep")
        self.slow()
        running = Request(self.url).wait_tokens(20)
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        self.fast()
        running.end()
        self.assertEqual(("1", "2", "length", LONG), (running.version, running.version_end, running.reason, running.count))
        record = self.swap_record()
        inside, kept, aborted = self.inside(record, 1)
        self.assertEqual((1, 0), (kept, aborted))
        self.assertEqual(("keep", "flush"), (record["inFlight"], record["kv"]))
        self.assertIn(f"{inside} inside, 1 kept", self.fleet.ctl("describe", "group", "g0"))

    def test_abort_gives_partial_answers(self):
        """What had been generated comes back, marked "abort", wholly of the old version, so that a client can go on from there."""
        self.fleet.apply_model(inFlight="abort")
        whole = Request(self.url, tokens=200).end().text
        self.slow()
        streamed = Request(self.url).wait_tokens(20)
        plain = Request(self.url, stream=False)
        streamed.wait_tokens(streamed.count + 20)
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        for answer in (streamed.end(), plain.end()):
            self.assertEqual(("1", "abort"), (answer.version, answer.reason))
            self.assertEqual("1", answer.version_end)
            self.assertGreater(len(answer.text), 10)
            self.assertLess(len(answer.text), LONG * 4)
            self.assertTrue(whole.startswith(answer.text[:150]) or answer.text.startswith(whole[:150]))
        record = self.swap_record()
        inside, kept, aborted = self.inside(record, 2)
        self.assertEqual((0, inside), (kept, aborted))

    def test_wait_lets_a_long_request_end(self):
        self.fleet.apply_model(inFlight="wait", drainDeadline="55s", swapDeadline="120s")
        self.slow()
        running = Request(self.url, tokens=400).wait_tokens(20)
        self.publish("v2", 2)
        wait_until("the swap waits for it", lambda: self.fleet.group_items()["g0"]["state"] == "GROUP_STATE_PAUSING")
        self.fast()
        running.end()
        self.assertEqual(("1", "1", "length", 400), (running.version, running.version_end, running.reason, running.count))
        self.fleet.wait_serving(2)
        self.assertNotIn("drainExpired", self.swap_record())

    def test_wait_has_an_end(self):
        """The three things that may follow a drain that takes too long."""
        self.fleet.apply_model(inFlight="wait", drainDeadline="150ms", drainExpiry="abort")
        self.slow()
        running = Request(self.url).wait_tokens(5)
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        self.assertEqual("abort", running.end().reason)
        record = self.swap_record()
        self.assertTrue(record["drainExpired"])
        self.assertEqual(1, int(record["requestsAborted"]))
        self.fleet.apply_model(inFlight="wait", drainDeadline="150ms", drainExpiry="keep")
        running = Request(self.url).wait_tokens(5)
        self.publish("v1", 3)
        self.fleet.wait_serving(3)
        self.fast()
        self.assertEqual(("length", "2", "3"), (running.end().reason, running.version, running.version_end))
        self.assertEqual(1, int(self.swap_record()["requestsKept"]))
        self.fleet.apply_model(inFlight="wait", drainDeadline="150ms")
        self.slow()
        running = Request(self.url).wait_tokens(5)
        self.publish("v2", 4)
        wait_until("it gave up once", lambda: any(o == "PAUSE_TIMEOUT" for _, s, o in self.fleet.outcomes("g0") if s == 4))
        self.fast()
        self.assertEqual(("length", "3", "3"), (running.end().reason, running.version, running.version_end))
        self.fleet.wait_serving(4)

    # --- KV ---

    def test_reset_that_lies_is_caught(self):
        """Says success and drops nothing: the group is out before its gate opens, and serves nothing stale when it is back."""
        traffic = self.fleet.start_traffic()
        self.fleet.set_fault("g0.e0", kind="lie", phase="reset")
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        traffic.stop(70)
        self.assertEqual("OUT", self.fleet.outcomes("g0")[1][2])
        out = next(e for e in self.fleet.events("group/g0") if e["reason"] == "SwapFailed")
        self.assertIn("KV of other weights", out["message"])
        answers = [a for a in read_answers(traffic) if a["status"] == 200]
        check_answers(answers, {1: "v1", 2: "v2"})

    def test_salt(self):
        """Old KV stays in the cache and is never matched, also after the agent was restarted, and back again."""
        self.fleet.apply_model(inFlight="abort", kv="salt")
        traffic = self.fleet.start_traffic()
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        self.fleet.agents["node"].kill()
        self.fleet.agents["node"].start()
        self.fleet.wait_connected()
        self.publish("v1", 3)
        self.fleet.wait_serving(3)
        traffic.stop(70)
        answers = [a for a in read_answers(traffic) if a["status"] == 200 and a["finish"] != "abort"]
        check_answers(answers, {1: "v1", 2: "v2", 3: "v1"})
        status, guard = self.fleet.engine_call("g0.e0", "GET", "/baton/guard")
        self.assertEqual((200, True), (status, guard["salt"]))
        self.assertEqual("salt", self.swap_record()["kv"])
        self.fleet.apply_model(inFlight="keep", kv="flush")
        self.publish("v2", 4)
        self.fleet.wait_serving(4)
        self.assertFalse(self.fleet.engine_call("g0.e0", "GET", "/baton/guard")[1]["salt"])

    # --- routers ---

    def hooks(self, router, deadline="20s"):
        self.fleet.apply_model(hooks=[{"when": when, "url": router.url, "deadline": deadline} for when in ("beforePause", "afterProbe")])

    def router(self):
        router = Router()
        self.addCleanup(router.close)
        return router

    def test_router_is_told(self):
        router = self.router()
        self.hooks(router)
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        self.assertEqual(["beforePause", "afterProbe"], router.events())
        before, after = router.calls
        self.assertEqual(("m", "g0", [self.url], 1, 2), tuple(before[k] for k in ("model", "group", "endpoints", "from", "to")))
        self.assertEqual((1, 2), (before["serves"], after["serves"]))
        self.assertEqual(before["ticket"], after["ticket"])

    def test_router_that_does_not_drain(self):
        """Refuses, hangs, is not there: nothing is touched, the reason is shown, and the swap is tried again."""
        router = self.router()
        self.hooks(router, deadline="3s")
        for seq, mode in ((2, 503), (3, "hang")):
            with self.subTest(mode):
                router.release.clear()
                router.mode["beforePause"] = mode
                version = "v2" if seq == 2 else "v1"
                before = len(router.calls)
                self.publish(version, seq)
                wait_until("blocked", lambda: self.fleet.group_items()["g0"].get("blockedReason") == "BLOCKED_REASON_ROUTER_NOT_DRAINED", every=0.02)
                wait_until("it is told where", lambda: router.url in self.fleet.ctl("describe", "group", "g0"))
                wait_until("the router is told", lambda: len(router.calls) >= before + 2)
                self.assertTrue(self.fleet.group_items()["g0"]["gateOpen"])
                self.assertEqual(["beforePause", "afterProbe"], router.events()[before : before + 2], "it learns that nothing changed")
                self.assertEqual(seq - 1, router.calls[before + 1]["serves"])
                router.mode["beforePause"] = 200
                router.release.set()
                self.fleet.wait_serving(seq)

    def test_router_that_cannot_be_told_afterwards(self):
        router = self.router()
        router.mode["afterProbe"] = 500
        self.hooks(router, deadline="5s")
        self.publish("v2", 2)
        self.fleet.wait_serving(2)
        self.assertGreater(router.events().count("afterProbe"), 1)
        self.assertTrue(any(e["reason"] == "HookFailed" for e in self.fleet.events("group/g0")))

    def test_words_that_do_not_fit_together(self):
        for update, says in (
            ({"kv": "keep", "inFlight": "abort"}, "inFlight"),
            ({"kv": "salt"}, "inFlight"),
            ({"inFlight": "wait", "drainExpiry": "abort", "drainDeadline": "90s"}, "swapDeadline"),
            ({"hooks": [{"when": "beforePause", "url": "ftp://x/y"}]}, "hooks.url"),
            ({"hooks": [{"when": "sometimes", "url": "http://x/y"}]}, "hooks.when"),
            ({"hooks": [{"when": "afterProbe", "url": "http://x/y"}] * 5}, "at most 4"),
        ):
            with self.subTest(update):
                path = self.fleet.dir / "bad.yaml"
                path.write_text(json.dumps({"kind": "Model", "metadata": {"name": "m"}, "spec": {"update": update}}))
                code, _, error = self.fleet.run("apply", "-f", path)
                self.assertEqual(1, code, error)
                self.assertIn(says, error)


class SecureFleet(Fleet):
    """Its agent calls hooks of https: it believes the folder's authority, and shows a certificate if it has one."""

    shows = True

    def agent_config(self, name):
        for each in ("router", name):
            if not (self.dir / "ca.crt").exists():
                make_authority(self.dir)
            make_certificate(self.dir, each)
        tls = {"ca": str(self.dir / "ca.crt")}
        if self.shows:
            tls |= {"cert": str(self.dir / f"{name}.crt"), "key": str(self.dir / f"{name}.key")}
        return {**super().agent_config(name), "hooksTls": tls}


class AnonymousFleet(SecureFleet):
    shows = False


class SecureHooks(unittest.TestCase):
    def fleet_with(self, kind):
        fleet = kind(GROUPS, times=TIMES)
        self.addCleanup(fleet.close)
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        return fleet

    def router_of(self, folder, asks=True):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(folder / "router.crt", folder / "router.key")
        context.load_verify_locations(folder / "ca.crt")
        context.verify_mode = ssl.CERT_REQUIRED if asks else ssl.CERT_NONE
        router = Router(context)
        self.addCleanup(router.close)
        return router

    def refused(self, fleet, router):
        """The hook is not acknowledged: the group is blocked, and the router heard nothing."""
        fleet.apply_model(hooks=[{"when": "beforePause", "url": router.url, "deadline": "500ms"}])
        fleet.publish("v2")
        wait_until("blocked", lambda: fleet.group_items()["g0"].get("blockedReason") == "BLOCKED_REASON_ROUTER_NOT_DRAINED", every=0.02)
        wait_until("it is told where", lambda: router.url in fleet.ctl("describe", "group", "g0"))
        self.assertEqual([], router.calls)

    def test_both_sides_show_certificates(self):
        fleet = self.fleet_with(SecureFleet)
        router = self.router_of(fleet.dir)
        fleet.apply_model(hooks=[{"when": when, "url": router.url, "deadline": "20s"} for when in ("beforePause", "afterProbe")])
        fleet.publish("v2")
        fleet.wait_serving(2)
        self.assertEqual(["beforePause", "afterProbe"], router.events())

    def test_router_that_asks_for_a_certificate(self):
        fleet = self.fleet_with(AnonymousFleet)
        self.refused(fleet, self.router_of(fleet.dir))

    def test_router_of_another_authority(self):
        fleet = self.fleet_with(SecureFleet)
        other = fleet.dir / "other"
        other.mkdir()
        make_authority(other)
        make_certificate(other, "router")
        self.refused(fleet, self.router_of(other, asks=False))


if __name__ == "__main__":
    os.environ.setdefault("PYTHONDONTWRITEBYTECODE", "1")
    unittest.main()
