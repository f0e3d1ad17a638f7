#!/usr/bin/env python3
"""baton.Rollout against a real fleet: answers that go on over swaps and deaths, sessions, slots, verdicts, refusals; also for asyncio."""

import asyncio
import json
import os
import signal
import sys
import threading
import unittest

import fleet
from fleet import EXPECTED, Fleet, wait_until

sys.path.insert(0, str(fleet.ROOT / "api/python"))
try:
    import grpc  # noqa: F401  pylint: disable=unused-import
except ImportError:
    grpc = None
import baton  # noqa: E402
import baton._http  # noqa: E402

GROUPS = {"node": {"g0": [1], "g1": [1]}}
POLICY = {
    "maxUnavailable": "1",
    "inFlight": "abort",
    "staleness": {"bound": 1},
    "sessions": {"maxHold": "1s", "ttl": "10m"},
    "slots": {"samplesPerPublish": 4, "ttl": "10m"},
}
TEXT = EXPECTED["prompts"]["baton"]
PROMPT = list(TEXT.encode())  # A byte is its own token.
STEP_MS, LONG = 20, 1500  # Half a minute of slow() steps: a whole roll falls into it.
GREEDY = {"temperature": 0, "ignore_eos": True}


def wanted(version, count=16):
    """What the tiny model says, by PyTorch: (token ids, log-probabilities)."""
    said = EXPECTED["versions"][version]["baton"]
    return said["tokens"][:count], said["logprobs"][:count]


class Fast(Fleet):
    """Engines come back within moments, so that retries find them."""

    def __init__(self):
        super().__init__(GROUPS, faults=True, times={"retryFirst": "200ms", "retryMax": "1s"})


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Rollouts(unittest.TestCase):
    """One fleet for all tests of the class; they run in the order of their names, each publishes what it needs."""

    @classmethod
    def setUpClass(cls):
        cls.fleet = Fast()
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.apply_model(**POLICY)
        cls.newest = cls.fleet.publish("v1")["seq"]
        cls.fleet.wait_serving(cls.newest)

    def setUp(self):
        self.rollout = baton.Rollout("m", server=self.fleet.server)
        self.addCleanup(self.rollout.close)

    def publish(self, version):
        type(self).newest = self.fleet.publish(version)["seq"]
        return self.newest

    def slow(self):
        """Each step of each engine takes longer, until the test's end."""
        for engine in self.fleet.engines:
            self.fleet.set_fault(engine, kind="slow", phase="step", ms=STEP_MS, sticky=True)
            self.addCleanup(self.fleet.clear_faults, engine)

    def active(self):
        """Requests inside the engines, by their guards."""
        return sum(self.fleet.engine_call(engine, "GET", "/baton/guard")[1]["active"] for engine in self.fleet.engines)

    def in_background(self, call):
        """(thread, list of its outcome)."""
        out = []

        def run():
            try:
                out.append(call())
            except Exception as error:  # pylint: disable=broad-except
                out.append(error)

        thread = threading.Thread(target=run, daemon=True)
        thread.start()
        return thread, out

    def result(self, started):
        thread, out = started
        thread.join(120 * fleet.PATIENCE)
        self.assertTrue(out, "the call did not end")
        if isinstance(out[0], Exception):
            raise out[0]
        return out[0]

    # --- asked and answered ---

    def test_1_an_answer_names_its_version(self):
        found = self.rollout.endpoints()
        self.assertEqual({"g0": self.newest, "g1": self.newest}, {e.group: e.version for e in found})
        self.assertEqual({0}, {e.lag for e in found})
        for prompt in (PROMPT, TEXT):
            answer = self.rollout.generate(prompt, max_tokens=16, temperature=0)
            tokens, logprobs = wanted("v1")
            self.assertEqual((tuple(tokens), "length", 0, False), (answer.token_ids, answer.finish_reason, answer.continued, answer.mixed))
            self.assertLess(max(abs(a - b) for a, b in zip(answer.logprobs, logprobs)), fleet.TOLERANCE)
            self.assertEqual(((baton.Span(self.newest, 16),), self.newest), (answer.spans, answer.version))
            self.assertEqual((self.newest,) * 16, answer.versions)

    def test_1_what_is_wrong_is_said_at_once(self):
        with self.assertRaisesRegex(baton.InvalidArgument, "g[01] at http.*HTTP 400.*max_tokens"):
            self.rollout.generate(PROMPT, max_tokens=1 << 20)
        with self.assertRaisesRegex(ValueError, "unit: 'parsecs'"):
            self.rollout.endpoints(max_lag=1, unit="parsecs")
        with self.assertRaisesRegex(ValueError, "ca"):
            baton.Rollout("m", token_file=__file__)
        with baton.Rollout("nobody", server=self.fleet.server) as stranger, self.assertRaisesRegex(baton.NotFound, "nobody"):
            stranger.generate(PROMPT)

    def test_1_connections_are_kept(self):
        pool = baton._http.Pool()
        self.addCleanup(pool.close)
        body = json.dumps({"prompt": PROMPT, "max_tokens": 2}).encode()
        kept = set()
        for _ in range(3):
            status, _, _ = pool.post(self.fleet.engines["g0.e0"], "/v1/completions", body, {"Content-Type": "application/json"}, 60, baton._http.Flight())
            self.assertEqual(200, status)
            kept |= {connection.sock.fileno() for idle in pool._idle.values() for connection in idle}
        self.assertEqual(1, len(kept))
        with self.assertRaises(TimeoutError):
            pool.post(self.fleet.engines["g0.e0"], "/v1/completions", body, {"Content-Type": "application/json"}, 0, baton._http.Flight())

    def test_1_never_an_older_version(self):
        with self.assertRaises(baton.FailedPrecondition) as caught:
            self.rollout.generate(PROMPT, min_version=self.newest + 1, timeout=0.3)
        self.assertEqual("VERSION_NOT_READY", caught.exception.reason)
        waiting = self.in_background(lambda: self.rollout.generate(PROMPT, max_tokens=16, temperature=0, min_version=self.newest + 1))
        seq = self.publish("v2")
        answer = self.result(waiting)
        self.assertEqual(seq, answer.version)
        self.assertEqual(wanted("v2")[0], list(answer.token_ids))
        self.fleet.wait_serving(seq)

    # --- swaps and deaths ---

    def test_2_an_answer_goes_on_over_a_swap(self):
        """Each of its spans is what that version says after the tokens before it."""
        old = self.newest
        self.fleet.wait_serving(old)
        self.slow()
        running = self.in_background(lambda: self.rollout.generate(PROMPT, max_tokens=LONG, **GREEDY))
        wait_until("it runs", lambda: self.active() == 1)
        new = self.publish("v1")
        self.fleet.wait_serving(new)
        for engine in self.fleet.engines:
            self.fleet.clear_faults(engine)
        answer = self.result(running)
        self.assertEqual((LONG, LONG), (len(answer.token_ids), len(answer.logprobs)))
        self.assertEqual((old, new), (answer.spans[0].version, answer.spans[-1].version), answer.spans)
        self.assertGreaterEqual(answer.continued, 1)
        self.assertFalse(answer.mixed)
        first = sum(span.tokens for span in answer.spans if span.version == old)
        self.assertEqual(wanted("v2", min(first, 40))[0], list(answer.token_ids[: min(first, 40)]))
        again = self.rollout.generate(PROMPT + list(answer.token_ids[:first]), max_tokens=LONG - first, exact_version=new, **GREEDY)
        self.assertEqual(again.token_ids, answer.token_ids[first:])
        self.assertLess(max(abs(a - b) for a, b in zip(again.logprobs, answer.logprobs[first:])), fleet.TOLERANCE)

    def test_2_an_engine_dies_under_a_request(self):
        self.fleet.wait_serving(self.newest)
        for engine in self.fleet.engines:
            self.fleet.set_fault(engine, kind="hang", phase="step")
        running = self.in_background(lambda: self.rollout.generate(PROMPT, max_tokens=60, **GREEDY))
        inside = lambda name: self.fleet.engine_call(name, "GET", "/baton/guard")[1]["active"]
        engine = wait_until("one has it", lambda: next((name for name in self.fleet.engines if inside(name) == 1), None))
        for other in self.fleet.engines.keys() - {engine}:
            self.fleet.clear_faults(other)
        os.kill(self.fleet.engine_pids()[engine], signal.SIGKILL)
        answer = self.result(running)
        self.assertEqual((60, self.newest), (len(answer.token_ids), answer.version))
        self.assertNotEqual(engine.split(".")[0], answer.groups[-1])
        self.fleet.wait_serving(self.newest)

    def test_2_the_controller_is_away(self):
        """Requests go on with what was known; what only the controller can say is refused, or waited for."""
        self.rollout.generate(PROMPT, max_tokens=2)
        self.fleet.controller.kill()
        self.rollout.refresh = 0
        self.assertEqual(self.newest, self.rollout.generate(PROMPT, max_tokens=2).version)
        with self.assertRaises(baton.Unavailable) as caught:
            self.rollout.evaluate([[(self.newest, 5)]])
        self.assertIn("BATON_SERVER", caught.exception.hint)
        waiting = self.in_background(lambda: self.rollout.endpoints(timeout=60 * fleet.PATIENCE))
        self.fleet.controller.start()
        self.fleet.wait_controller()
        self.assertIn(self.newest, {e.version for e in self.result(waiting)})
        self.fleet.wait_connected()
        self.fleet.wait_serving(self.newest)

    # --- sessions, slots, verdicts ---

    def test_3_a_session_keeps_its_version(self):
        self.fleet.apply_model(**POLICY | {"sessions": {"maxHold": "10m", "ttl": "10m"}})
        with self.rollout.session() as session:
            first = session.generate(PROMPT, max_tokens=16, temperature=0)
            old, new = session.version, self.publish("v2")
            held = lambda: {g.get("blockedReason") for g in self.fleet.group_items().values()}
            wait_until("the last group is held", lambda: "BLOCKED_REASON_SESSION_LEASES" in held())
            second = session.generate(PROMPT + list(first.token_ids), max_tokens=16, temperature=0)
            self.assertEqual({old}, {first.version, second.version})
            self.assertEqual(wanted("v1", 32)[0], list(first.token_ids + second.token_ids))
            self.fleet.apply_model(**POLICY)
            self.fleet.wait_serving(new)
            with self.assertRaises(baton.FailedPrecondition) as caught:
                session.generate(PROMPT)
            self.assertEqual("SESSION_EXPIRED", caught.exception.reason)
            session.restart()
            self.assertEqual(new, session.generate(PROMPT, max_tokens=2).version)

    def test_4_slots_bound_what_is_on_the_way(self):
        """(1 + 1) * 4 samples may be on the way."""
        self.publish("v3")  # None was consumed towards the next publish.
        with self.rollout.slots(5) as five, self.rollout.slots(9, partial=True) as rest:
            self.assertEqual((5, 3), (five.granted, rest.granted))
            with self.assertRaises(baton.ResourceExhausted) as caught, self.rollout.slots(1, timeout=0.2):
                self.fail("there was room")
            self.assertEqual("SLOTS_FULL", caught.exception.reason)
            waiting = self.in_background(lambda: self.rollout.slots(2).__enter__())
            rest.drop(2)
            two = self.result(waiting)
            five.consume(1)
            self.assertEqual((4, 1, 2), (five.held, rest.held, two.held))
        two.__exit__()
        with self.rollout.slots(8, partial=True) as all_but_one:
            self.assertEqual(7, all_but_one.granted, "one was consumed since the publish, the others were given back")

    def test_4_a_lease_lives_as_long_as_its_context(self):
        # Long enough that a starved machine renews in time.
        self.fleet.apply_model(**POLICY | {"slots": {"samplesPerPublish": 4, "ttl": "4s"}})
        returned = lambda: [e for e in self.fleet.events() if e["reason"] == "SlotsReturned"]
        before = len(returned())
        forgotten = self.rollout._call("AcquireSlots", count=1)
        with self.rollout.slots(1) as slots:
            wait_until("one that nobody renews is over", lambda: len(returned()) > before)
            until = slots._until
            wait_until("ours was renewed", lambda: slots._until > until)
            self.assertEqual((1, False), (self.rollout._call("AcquireSlots", lease=slots.lease).held, slots.lost))
        with self.assertRaises(baton.BatonError):
            self.rollout._call("AcquireSlots", lease=forgotten.lease)
        self.fleet.apply_model(**POLICY)

    def test_5_verdicts_and_counts(self):
        answer = self.rollout.generate(PROMPT, max_tokens=4)
        good, old, none = self.rollout.evaluate([answer, [(1, 5)], []])
        self.assertEqual((True, (), answer.version), (good.accept, good.faults, good.oldest))
        self.assertEqual((False, ("TOO_STALE",), 1), (old.accept, old.faults, old.oldest))
        self.assertEqual(("NO_SPANS",), none.faults)
        self.assertTrue(self.rollout.evaluate([[(1, 5)]], max_lag=1000)[0].accept)
        self.assertEqual(2500, len(self.rollout.evaluate([answer] * 2500)))
        self.rollout.report([answer, answer], "consumption")
        with self.assertRaisesRegex(ValueError, "stage"):
            self.rollout.report([answer], "lunch")
        self.assertIn("TOO_STALE", self.fleet.run("judge", "m", "--span", "1:5", "--consumer", str(self.newest))[1])

    # --- asyncio ---

    def test_6_asyncio(self):
        async def many():
            async with baton.AsyncRollout("m", server=self.fleet.server) as rollout, rollout.slots(2) as slots:
                answers = await asyncio.gather(*[rollout.generate(PROMPT, max_tokens=8, temperature=0) for _ in range(32)])
                turn = await rollout.session().generate(PROMPT, max_tokens=8, temperature=0)
                await slots.consume(1)
                return [*answers, turn], await rollout.evaluate(answers), await rollout.endpoints()

        self.fleet.wait_serving(self.newest)
        answers, verdicts, endpoints = asyncio.run(many())
        self.assertEqual({self.newest}, {a.version for a in answers})
        self.assertEqual(({True}, 2), ({v.accept for v in verdicts}, len(endpoints)))
        self.assertEqual({"g0", "g1"}, {group for answer in answers for group in answer.groups}, "the load is spread")

    def test_6_a_cancelled_task_ends_its_request(self):
        async def cancelled():
            async with baton.AsyncRollout("m", server=self.fleet.server) as rollout:
                task = asyncio.ensure_future(rollout.generate(PROMPT, max_tokens=1500, **GREEDY))
                await asyncio.to_thread(wait_until, lambda: f"the request runs: {task}", lambda: self.active() == 1)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                await asyncio.to_thread(wait_until, "the engine is rid of it", lambda: self.active() == 0)

        self.slow()
        asyncio.run(cancelled())


if __name__ == "__main__":
    unittest.main()
