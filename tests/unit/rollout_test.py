#!/usr/bin/env python3
"""baton.Rollout and AsyncRollout against a controller and engines that this test plays: slots, threads, answers that are none.

usage: rollout_test.py PYTHON_PACKAGES [unittest arguments]
"""

import asyncio
import http.server
import json
import sys
import threading
import time
import types
import unittest

PACKAGES = sys.argv[1]
sys.path.insert(0, PACKAGES)


class Controller:
    """Admission of one model with room for so many samples; it has no gRPC, so that none is needed."""

    room, urls, pause, hangs = 1, (), 0.0, False

    def __init__(self, *_, **__):
        self.lock, self.held, self.calls = threading.Lock(), {}, []
        self.waits = []

    def call(self, name, timeout, **fields):
        if self.hangs:
            self.waits.append(timeout)  # So long it would be waited for.
            raise baton.DeadlineExceeded(4, "DEADLINE_EXCEEDED", "", "no answer", "")
        with self.lock:
            self.calls.append(name)
            answer = getattr(self, name)(**fields)
        time.sleep(self.pause)
        return answer

    def lease(self, name, granted):
        expires = types.SimpleNamespace(seconds=time.time() + 0.6)
        return types.SimpleNamespace(lease=name, granted=granted, held=self.held[name], expires_at=expires)

    def AcquireSlots(self, lease="", count=0, **_):  # pylint: disable=invalid-name
        if lease:
            if lease not in self.held:
                raise baton.NotFound(5, "NOT_FOUND", "NOT_FOUND", "no such lease", "")
            return self.lease(lease, 0)
        if sum(self.held.values()) + count > self.room:
            raise baton.ResourceExhausted(8, "RESOURCE_EXHAUSTED", "SLOTS_FULL", "no room", "")
        name = f"lease-{len(self.calls)}"
        self.held[name] = count
        return self.lease(name, count)

    def ReleaseSlots(self, lease, consumed=0, dropped=0, **_):  # pylint: disable=invalid-name
        given = consumed + dropped
        if not 0 < given <= self.held.get(lease, 0):
            raise baton.InvalidArgument(3, "INVALID_ARGUMENT", "BAD_FIELD", f"{given} of {self.held}", "")
        self.held[lease] -= given
        left = self.held[lease] or self.held.pop(lease)
        return types.SimpleNamespace(held=left)

    def Resolve(self, **_):  # pylint: disable=invalid-name
        engines = [types.SimpleNamespace(endpoint=url) for url in self.urls]
        endpoint = types.SimpleNamespace(group="g0", seq=1, digest="", relation=1, lag_publishes=0, engines=engines)
        return types.SimpleNamespace(endpoints=[endpoint], next_page_token="")

    def close(self):
        pass


sys.modules["baton._control"] = types.SimpleNamespace(Control=Controller, DEFAULT_SERVER="nowhere:1")

import baton  # noqa: E402


def until(what, condition):
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.01)


class Slots(unittest.TestCase):
    def rollout(self, room, pause=0.0):
        rollout = baton.Rollout("m")
        rollout._control.room, rollout._control.pause = room, pause
        self.addCleanup(rollout.close)
        return rollout, rollout._control

    def test_nothing_accepted_is_nothing_to_say(self):
        rollout, control = self.rollout(8)
        with rollout.slots(8) as slots:
            slots.consume(0)
            self.assertNotIn("ReleaseSlots", control.calls)
        self.assertEqual({}, control.held)

    def test_what_was_consumed_is_not_given_back_again(self):
        """While it is renewed all the time, by an answer that may be older than what was told."""
        rollout, control = self.rollout(64, pause=0.05)
        with rollout.slots(40) as slots:
            for _ in range(40):
                slots.consume(1)
                self.assertEqual(slots.held, sum(control.held.values()))
            until("its keeper has ended", lambda: not slots._keeper.is_alive())
            self.assertFalse(slots.lost)
        self.assertEqual({}, control.held)

    def test_an_exception_gives_them_back(self):
        rollout, control = self.rollout(8)
        with self.assertRaises(ZeroDivisionError), rollout.slots(8):
            raise ZeroDivisionError
        self.assertEqual({}, control.held)


class Asynchronous(unittest.TestCase):
    def test_more_wait_for_room_than_there_are_threads(self):
        async def one(rollout):
            async with rollout.slots(1, timeout=60) as slots:
                await slots.consume(1)

        async def all_of_them():
            async with baton.AsyncRollout("m", concurrency=2) as rollout:
                await asyncio.wait_for(asyncio.gather(*[one(rollout) for _ in range(8)]), 50)
                return rollout.sync._control.held

        self.assertEqual({}, asyncio.run(all_of_them()))

    def test_a_cancelled_task_leaves_no_slots(self):
        async def cancelled(room, pause):
            async with baton.AsyncRollout("m") as rollout:
                control = rollout.sync._control
                control.room, control.pause = room, pause
                task = asyncio.ensure_future(rollout.slots(1).__aenter__())
                await asyncio.to_thread(until, "it asked", lambda: control.calls)
                task.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await task
                # Nothing is held, and nobody asks any more.
                await asyncio.to_thread(until, "given back", lambda: not control.held)
                await asyncio.sleep(1)
                asked = len(control.calls)
                await asyncio.sleep(1)
                self.assertEqual(asked, len(control.calls))

        asyncio.run(cancelled(room=1, pause=0.3))
        asyncio.run(cancelled(room=0, pause=0.0))


class Engine(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):  # pylint: disable=invalid-name
        self.rfile.read(int(self.headers["Content-Length"]))
        body = json.dumps(self.server.answers[0] if len(self.server.answers) == 1 else self.server.answers.pop(0)).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass


def choice(tokens, reason):
    return {"choices": [{"text": "x" * len(tokens), "token_ids": tokens, "finish_reason": reason, "logprobs": {"token_logprobs": [0.0] * len(tokens)}}]}


class Answers(unittest.TestCase):
    def rollout(self, *answers):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
        server.answers, server.daemon_threads, server.handle_error = list(answers), True, lambda *_: None
        threading.Thread(target=server.serve_forever, daemon=True).start()
        self.addCleanup(server.server_close)
        self.addCleanup(server.shutdown)
        rollout = baton.Rollout("m")
        self.addCleanup(rollout.close)
        rollout._control.urls = [f"http://127.0.0.1:{server.server_address[1]}"]
        return rollout

    def test_what_is_no_answer_is_asked_again_and_leaves_nothing(self):
        broken = choice([7], "stop")
        broken["choices"][0]["logprobs"] = [1]
        rollout = self.rollout({}, {"choices": []}, choice(["a"], "stop"), broken, choice([1, 2], "stop"))
        answer = rollout.generate([5], timeout=60)
        self.assertEqual(((1, 2), (0.0, 0.0), (baton.Span(1, 2),), "xx"), (answer.token_ids, answer.logprobs, answer.spans, answer.text))

    def test_one_that_never_answers_is_told(self):
        with self.assertRaisesRegex(baton.BatonError, "HTTP 200: .*surprise"):
            self.rollout({"surprise": 1}).generate([5], timeout=60)

    def test_one_that_gives_all_back_is_not_hurried(self):
        rollout = self.rollout(choice([1], "abort"), choice([], "abort"))
        asked, post = [], rollout._http.post
        rollout._http.post = lambda *given: asked.append(1) or post(*given)
        with self.assertRaises(baton.BatonError):
            rollout.generate([5], max_tokens=4, timeout=1)
        self.assertLess(len(asked), 12)

    def test_a_controller_that_hangs_stops_nobody(self):
        rollout = self.rollout(choice([1], "stop"))
        rollout.refresh = 0
        rollout.generate([5], timeout=60)
        rollout._control.hangs = True
        self.assertEqual(1, rollout.generate([5], timeout=60).version)
        self.assertEqual([2.0], rollout._control.waits)

    def test_several_answers_are_refused(self):
        for sampling in ({"n": 2}, {"stream": True}):
            with self.assertRaisesRegex(ValueError, "one whole answer"):
                self.rollout(choice([1], "stop")).generate([5], **sampling)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1] + sys.argv[2:])
