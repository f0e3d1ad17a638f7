"""The guard against engine-contract.md section 1, with a real page and a small ASGI application."""

import asyncio
import json
import multiprocessing
import os
import struct
import tempfile
import unittest

import servers
from baton.vllm import guard, page


async def _generator(scope, receive, send):
    """Echoes the request's body; path /v1/stream answers as an event stream."""
    body, more = b"", True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            return
        body, more = body + message.get("body", b""), message.get("more_body", False)
    kind = b"text/event-stream" if scope["path"] == "/v1/stream" else b"application/json"
    head = {"type": "http.response.start", "status": 200, "headers": [(b"content-type", kind)]}
    await send(head)
    await send({"type": "http.response.body", "body": b"echo " + body})


def _sibling(pipe):
    """An API server process: says what its guard sees, or takes so many requests, as it is told."""
    made = guard.Guard(_generator)
    while True:
        try:
            told = pipe.recv()
        except EOFError:
            return
        if told != "state":
            made._page.count_active(told)
        pipe.send(made.state())


class Client:
    """One request to the guard."""

    def __init__(self, application, path, method="GET", headers=(), body=(b"hello",)):
        self.scope = {"type": "http", "path": path, "method": method, "root_path": "",
                      "headers": [(k.encode(), v.encode()) for k, v in headers]}  # fmt: skip
        parts = [
            {"type": "http.request", "body": part, "more_body": i + 1 < len(body)}
            for i, part in enumerate(body)
        ]
        self.incoming = asyncio.Queue()
        for part in parts:
            self.incoming.put_nowait(part)
        self.sent = []
        running = application(self.scope, self.incoming.get, self._send)
        self.task = asyncio.ensure_future(running)

    async def _send(self, message):
        self.sent.append(message)

    def leave(self):
        self.incoming.put_nowait({"type": "http.disconnect"})

    async def answer(self):
        """(status, headers, text)"""
        await asyncio.wait_for(self.task, 20)
        head = {k.decode(): v.decode() for k, v in self.sent[0]["headers"]}
        text = b"".join(message.get("body", b"") for message in self.sent)
        return self.sent[0]["status"], head, text.decode()


TOKEN = ("x-baton-token", "secret")


class GuardTest(unittest.IsolatedAsyncioTestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        os.environ["BATON_GUARD_PAGE"] = self.path("page")
        os.environ["BATON_GUARD_TOKEN_FILE"] = self.path("token")
        with open(self.path("token"), "w", encoding="ascii") as out:
            out.write("secret\n")
        self.agent = servers.AgentPage(self.path("page"))
        self.guard = guard.Guard(_generator)

    def path(self, name):
        return os.path.join(self.folder.name, name)

    async def ask(self, path="/v1/completions", **request):
        return await Client(self.guard, path, **request).answer()

    async def until(self, condition):
        """Let the loop run until a condition holds; fails after 20 s."""

        async def turn():
            while not condition():
                await asyncio.sleep(0)

        await asyncio.wait_for(turn(), 20)

    async def test_boots_shut(self):
        status, headers, text = await self.ask()
        self.assertEqual(status, 503)
        self.assertEqual(headers["retry-after"], "1")
        error = json.loads(text)["error"]
        self.assertEqual((error["type"], error["code"]), ("baton_guard", 503))

    async def test_open_gate_passes_and_labels(self):
        self.agent.write(servers.OPEN, 7)
        status, headers, text = await self.ask(method="POST", body=(b"a", b"b"))
        self.assertEqual((status, text), (200, "echo ab"))
        self.assertEqual((headers["x-baton-version"], headers["x-baton-version-end"]), ("7", "7"))

    async def test_stream_tells_its_end_version_at_its_end(self):
        self.agent.write(servers.OPEN, 7)
        status, headers, text = await self.ask("/v1/stream")
        self.assertEqual((status, headers["x-baton-version"]), (200, "7"))
        self.assertNotIn("x-baton-version-end", headers)
        self.assertEqual(text, "echo hello: x-baton-version-end 7\n\n")

    async def salted(self, body, path="/v1/completions", parts=1):
        text = body if isinstance(body, bytes) else json.dumps(body).encode()
        cut = len(text) // parts
        pieces = [text[i * cut : (i + 1) * cut] for i in range(parts - 1)]
        pieces.append(text[(parts - 1) * cut :])
        return await self.ask(path, method="POST", body=tuple(pieces))

    async def test_salt_names_the_version(self):
        self.agent.write(servers.OPEN, 7, salt=1)
        self.assertIs(self.guard.state()["salt"], True)
        for parts in (1, 3):
            status, _, text = await self.salted({"prompt": "a"}, parts=parts)
            self.assertEqual(status, 200)
            self.assertEqual(json.loads(text[5:]), {"prompt": "a", "cache_salt": "baton-7"})
        _, _, text = await self.salted({"cache_salt": "mine"}, "/v1/chat/completions")
        self.assertEqual(json.loads(text[5:])["cache_salt"], "baton-7.mine")

    async def test_salt_needs_a_body_that_can_carry_it(self):
        self.agent.write(servers.OPEN, 7, salt=1)
        for body in (b"no json", b"[1]", b"", b"[" * 100000):
            self.assertEqual((await self.salted(body))[0], 400, body[:20])
        self.assertEqual((await self.salted(b"no json", "/tokenize"))[0], 200)
        self.assertEqual((await self.ask("/v1/completions"))[0], 200, "a GET has no body")

    async def test_no_salt_no_change(self):
        self.agent.write(servers.OPEN, 7)
        self.assertIs(self.guard.state()["salt"], False)
        self.assertEqual((await self.salted(b"no json"))[2], "echo no json")

    async def test_gate_opened_for_another_boot_is_shut(self):
        self.agent.write(servers.OPEN, 7)
        again = guard.Guard(_generator)
        self.assertEqual(again.state()["boots"], 2)
        self.assertEqual(again.state()["gate"], "shut")
        self.assertEqual(self.guard.state()["gate"], "shut", "the dead incarnation stays shut")
        self.assertNotEqual(again.state()["bootId"], "0" * 32)

    def siblings(self, count):
        """Processes of this one, which has no guard on their page; each lives until its pipe is closed."""
        os.environ["BATON_GUARD_PAGE"] = self.path("siblings.page")
        context, found = multiprocessing.get_context("spawn"), []
        for _ in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(target=_sibling, args=(theirs,))
            process.start()
            theirs.close()
            found.append((ours, process))
            self.addCleanup(process.join)
            self.addCleanup(ours.close)
        return found

    def states(self, siblings):
        for pipe, _ in siblings:
            pipe.send("state")
        return [pipe.recv() for pipe, _ in siblings]

    async def test_api_server_processes_of_one_launcher_are_one_boot(self):
        pair = self.siblings(2)
        first, second = self.states(pair)
        self.assertEqual((1, first["bootId"]), (first["boots"], second["bootId"]))
        self.assertEqual(first["boots"], second["boots"])
        agent = servers.AgentPage(self.path("siblings.page"))
        agent.write(servers.OPEN, 7)
        self.assertEqual(["open", "open"], [state["gate"] for state in self.states(pair)])
        for (pipe, _), inside in zip(pair, (2, 3)):
            pipe.send(inside)
            pipe.recv()
        self.assertEqual([5, 5], [state["active"] for state in self.states(pair)])
        self.assertEqual((0, 5), agent.counters())

    async def test_a_process_that_follows_a_dead_one_is_a_new_boot(self):
        """The same launcher starts a server again: nothing that was opened for the old one is open."""
        (pair,) = self.siblings(1)
        self.states([pair])
        servers.AgentPage(self.path("siblings.page")).write(servers.OPEN, 7)
        self.assertEqual("open", self.states([pair])[0]["gate"])
        pair[0].close()
        pair[1].join()
        (again,) = self.states(self.siblings(1))
        self.assertEqual((2, "shut", 0), (again["boots"], again["gate"], again["active"]))

    async def test_a_process_that_ended_has_no_siblings_before_it_is_waited_for(self):
        """Else a server that its launcher starts at once would find the gate open."""
        (pair,) = self.siblings(1)
        self.states([pair])
        with open(self.path("siblings.page"), "rb") as file:
            memory, launcher = file.read(), page._life(os.getpid())
        self.assertTrue(page._has_siblings(memory, launcher))
        pair[0].close()
        os.waitid(os.P_PID, pair[1].pid, os.WEXITED | os.WNOWAIT)
        self.assertFalse(page._has_siblings(memory, launcher))

    async def test_probing_paths_pass_always(self):
        for path in ("/health", "/ping", "/metrics", "/version", "/v1/models", "/load"):
            self.assertEqual((await self.ask(path))[0], 200, path)

    async def test_generation_paths_are_gated(self):
        for path in ("/v1/chat/completions", "/inference/v1/generate", "/generate", "/tokenize",
                     "/detokenize", "/invocations", "/pooling", "/classify", "/score", "/rerank",
                     "/embeddings"):  # fmt: skip
            self.assertEqual((await self.ask(path))[0], 503, path)

    async def test_control_routes_need_the_token(self):
        self.agent.write(servers.OPEN, 7)
        wrong = ("x-baton-token", "secret2")
        for path in ("/pause", "/collective_rpc", "/docs", "/nothing", "/v1/load_lora_adapter",
                     "/baton/guard", "//v1/completions"):  # fmt: skip
            self.assertEqual((await self.ask(path))[0], 403, path)
            self.assertEqual((await self.ask(path, headers=[wrong]))[0], 403, path)
            self.assertEqual((await self.ask(path, headers=[TOKEN]))[0], 200, path)

    async def test_no_token_file_refuses_every_control_route(self):
        os.unlink(self.path("token"))
        closed = guard.Guard(_generator)
        for headers in ([], [TOKEN], [("x-baton-token", "")]):
            answer = await Client(closed, "/pause", headers=headers).answer()
            self.assertEqual(answer[0], 403)
        with open(self.path("token"), "w", encoding="ascii") as out:
            out.write("\n")
        emptied = Client(guard.Guard(_generator), "/pause", headers=[("x-baton-token", "")])
        self.assertEqual((await emptied.answer())[0], 403)

    async def test_token_passes_a_shut_gate(self):
        self.assertEqual((await self.ask(headers=[TOKEN]))[0], 200)

    async def test_state(self):
        self.agent.write(servers.HOLD, 9)
        status, _, text = await self.ask("/baton/guard", headers=[TOKEN])
        found = json.loads(text)
        self.assertEqual(status, 200)
        self.assertEqual((found["guard"], found["gate"], found["boots"]), (1, "hold", 1))
        self.assertEqual((found["version"], found["held"], found["active"]), (9, 0, 0))
        self.assertRegex(found["bootId"], "^[0-9a-f]{32}$")

    async def test_version_headers(self):
        self.agent.write(servers.OPEN, 7)
        for name, value, status in (
            ("min", "7", 200), ("min", "8", 409), ("min", "0", 200), ("exact", "7", 200),
            ("exact", "6", 409), ("exact", "8", 409), ("min", "-1", 400), ("min", "seven", 400),
            ("exact", "", 400), ("min", "18446744073709551616", 400),
        ):  # fmt: skip
            found = await self.ask(headers=[(f"x-baton-{name}-version", value)])
            self.assertEqual(found[0], status, (name, value))
            self.assertEqual(found[1]["x-baton-version"], "7")

    async def test_hold_waits_and_then_passes(self):
        self.agent.write(servers.HOLD, 7, hold_ms=20000)
        waiting = Client(self.guard, "/v1/completions", body=(b"a", b"b"),
                         headers=[("x-baton-min-version", "8")])  # fmt: skip
        await self.until(lambda: self.agent.counters()[0] == 1)
        self.assertEqual(self.agent.counters(), (1, 0))
        self.agent.write(servers.OPEN, 8)
        status, headers, text = await waiting.answer()
        self.assertEqual((status, text, headers["x-baton-version"]), (200, "echo ab", "8"))
        self.assertEqual(self.agent.counters(), (0, 0))

    async def test_hold_that_ends_shut_is_refused(self):
        self.agent.write(servers.HOLD, 7, hold_ms=20000)
        waiting = Client(self.guard, "/v1/completions")
        await self.until(lambda: self.agent.counters()[0] == 1)
        self.agent.write(servers.SHUT, 7)
        self.assertEqual((await waiting.answer())[0], 503)

    async def test_hold_is_bounded_in_number(self):
        self.agent.write(servers.HOLD, 7, hold_max=1, hold_ms=20000)
        waiting = Client(self.guard, "/v1/completions")
        await self.until(lambda: self.agent.counters()[0] == 1)
        status, _, text = await self.ask()
        self.assertEqual(status, 503)
        self.assertIn("wait already", text)
        waiting.leave()
        await asyncio.wait_for(waiting.task, 20)

    async def test_hold_is_bounded_in_time(self):
        self.agent.write(servers.HOLD, 7, hold_max=1, hold_ms=50)
        status, _, text = await self.ask()
        self.assertEqual(status, 503)
        self.assertIn("longer than", text)

    async def test_client_that_leaves_frees_its_place(self):
        self.agent.write(servers.HOLD, 7, hold_max=1, hold_ms=20000)
        gone = Client(self.guard, "/v1/completions")
        await self.until(lambda: self.agent.counters()[0] == 1)
        gone.leave()
        await asyncio.wait_for(gone.task, 20)
        self.assertEqual((gone.sent, self.agent.counters()), ([], (0, 0)))

    async def test_active_counts_requests_in_the_engine(self):
        self.agent.write(servers.OPEN, 7)
        inside = Client(self.guard, "/v1/completions", body=())
        await self.until(lambda: self.agent.counters()[1] == 1)
        inside.leave()
        await asyncio.wait_for(inside.task, 20)
        self.assertEqual(self.agent.counters(), (0, 0))

    async def test_odd_sequence_reads_as_shut(self):
        self.agent.write(servers.OPEN, 7)
        with open(self.path("page"), "r+b") as file:
            file.seek(8)
            file.write(struct.pack("<Q", 11))
        self.assertEqual((await self.ask())[0], 503)

    async def test_unknown_layout_stays_shut_and_untouched(self):
        other = struct.pack("<II", page.MAGIC, 2) + bytes(page.SIZE - 8)
        with open(self.path("page"), "wb") as file:
            file.write(other)
        strange = guard.Guard(_generator)
        self.assertEqual((await Client(strange, "/v1/completions").answer())[0], 503)
        with open(self.path("page"), "rb") as file:
            self.assertEqual(file.read(), other)

    async def test_page_is_private_and_needed(self):
        self.assertEqual(os.stat(self.path("page")).st_mode & 0o777, 0o600)
        del os.environ["BATON_GUARD_PAGE"]
        with self.assertRaisesRegex(RuntimeError, "BATON_GUARD_PAGE"):
            guard.Guard(_generator)

    async def test_websocket_is_gated(self):
        sent = []

        async def send(message):
            sent.append(message)

        scope = {"type": "websocket", "path": "/v1/realtime", "headers": []}
        await self.guard(scope, asyncio.Queue().get, send)
        self.assertEqual(sent[0]["type"], "websocket.close")


if __name__ == "__main__":
    unittest.main()
