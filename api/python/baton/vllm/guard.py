"""The guard: an ASGI middleware that keeps a vLLM server's gate.

deploy/docs/engine-contract.md, section 1, is what it does.  It uses the standard library alone and
runs on the API server's event loop.  Environment: BATON_GUARD_PAGE, BATON_GUARD_TOKEN_FILE."""

import asyncio
import hmac
import json
import logging
import os

from baton.vllm import hold, page, rules, salt

log = logging.getLogger("baton.guard")


def _read_token(path):
    """The agent's token, or None: then no control route is ever allowed."""
    if not path:
        return None
    try:
        with open(path, "rb") as source:
            lines = source.read(4096).splitlines()
    except OSError as error:
        log.error("token file %s cannot be read: %s; control routes stay closed", path, error)
        return None
    return (lines[0].strip() if lines else b"") or None


async def _answer(scope, send, status, body, headers=()):
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1013, "reason": "baton: gate is shut"})
        return
    text = json.dumps(body).encode()
    fixed = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(text))]
    head = {"type": "http.response.start", "status": status, "headers": fixed + list(headers)}
    await send(head)
    await send({"type": "http.response.body", "body": text})


async def _refuse(scope, send, status, message, version=None):
    error = {"error": {"message": message, "type": "baton_guard", "code": status}}
    headers = [(b"retry-after", b"1")] if status == 503 else []
    if version is not None:
        headers.append((rules.VERSION, b"%d" % version))
    await _answer(scope, send, status, error, headers)


def _streams(headers):
    """Whether an answer's headers say that it is an event stream."""
    kinds = [value for name, value in headers if name.lower() == b"content-type"]
    return any(kind.startswith(b"text/event-stream") for kind in kinds)


class Guard:
    """Wraps an ASGI application.  One instance a server; made on its event loop."""

    def __init__(self, app):
        self._app = app
        path = os.environ.get("BATON_GUARD_PAGE")
        if not path:
            message = "BATON_GUARD_PAGE is not set: give the path of the agent's guard page"
            raise RuntimeError(message)
        self._page = page.Page(path)
        self._token = _read_token(os.environ.get("BATON_GUARD_TOKEN_FILE"))
        self._turnstile = hold.Turnstile(self._page, page.HOLD)
        if self._page.boots is None:
            log.error("guard page %s has an unknown layout: the gate stays shut", path)

    async def __call__(self, scope, receive, send):
        if scope["type"] not in ("http", "websocket"):
            await self._app(scope, receive, send)
            return
        kind = rules.kind_of(rules.path_of(scope))
        trusted = self._trusts(rules.header(scope, rules.TOKEN))
        if kind == rules.GENERATION:
            await self._generation(scope, receive, send, trusted)
        elif kind == rules.ALWAYS:
            await self._app(scope, receive, send)
        elif not trusted:
            message = "control route: only this engine's agent may call it (header x-baton-token)"
            await _refuse(scope, send, 403, message)
        elif kind == rules.STATE and scope.get("method") == "GET":
            await _answer(scope, send, 200, self.state())
        else:
            await self._app(scope, receive, send)

    def _trusts(self, token):
        return (
            token is not None
            and self._token is not None
            and hmac.compare_digest(token, self._token)
        )

    def state(self):
        """The guard's own view of the page."""
        view = self._page.read()
        return {
            "guard": 1,
            "gate": page.NAMES[view.gate],
            "boots": self._page.boots or 0,
            "bootId": self._page.boot_id,
            "version": view.version,
            "salt": view.salt,
            "held": self._page.held,
            "active": self._page.active,
        }

    async def _generation(self, scope, receive, send, trusted):
        try:
            wanted = rules.wanted_versions(scope)
        except ValueError as error:
            await _refuse(scope, send, 400, str(error), self._page.read().version)
            return
        body = hold.Body(receive)
        # Counted before the gate is read: an agent that shut the gate and then reads active = 0
        # knows that nobody is on the way in.
        self._page.count_active(1)
        try:
            view = await self._admit(scope, send, body, trusted)
            if view is None:
                return
            reason = rules.unmet(wanted, view.version)
            if reason is not None:
                await _refuse(scope, send, 409, reason, view.version)
                return
            receive = body.receive
            if view.salt and salt.applies(scope, rules.path_of(scope)):
                try:
                    scope, receive = await salt.add(scope, receive, view.version)
                except ValueError as error:
                    await _refuse(scope, send, 400, str(error), view.version)
                    return
            await self._app(scope, receive, self._labelled(send, view.version))
        finally:
            self._page.count_active(-1)

    async def _admit(self, scope, send, body, trusted):
        """The view under which a request passes, or None: it was answered or its client left."""
        view = self._page.read()
        if trusted or view.gate == page.OPEN:
            return view
        if view.gate == page.HOLD:
            if self._page.held >= view.hold_max:
                message = f"a weight swap is under way and {self._page.held} requests wait already"
                await _refuse(scope, send, 503, message, view.version)
                return None
            if not await self._wait(body, view):
                return None
            view = self._page.read()
            if view.gate == page.OPEN:
                return view
        await _refuse(scope, send, 503, self._shut_message(view), view.version)
        return None

    @staticmethod
    def _shut_message(view):
        if view.gate == page.HOLD:
            return "a weight swap is under way and took longer than a request may wait"
        return "the gate is shut: the engine's weights are not verified, or it is out of service"

    async def _wait(self, body, view):
        """Wait as long as the gate says "hold", holdMs at most.  False: the client left."""
        self._page.count_active(-1)
        self._page.count_held(1)
        try:
            deadline = asyncio.get_running_loop().time() + view.hold_ms / 1000
            while view.gate == page.HOLD:
                left = deadline - asyncio.get_running_loop().time()
                if left <= 0:
                    return True
                if await hold.wait_at(self._turnstile, body, left) is None:
                    return False
                view = self._page.read()
            return True
        finally:
            self._page.count_held(-1)
            self._page.count_active(1)

    def _labelled(self, send, version):
        """A send callable that writes the version onto the answer's head."""

        streaming = False

        async def sending(message):
            nonlocal streaming
            if message["type"] in ("http.response.start", "websocket.accept"):
                headers = list(message.get("headers", ()))
                labels = [(rules.VERSION, b"%d" % version)]
                streaming = _streams(headers)
                if message["type"] == "http.response.start" and not streaming:
                    labels.append((rules.VERSION_END, b"%d" % self._page.read().version))
                message = {**message, "headers": headers + labels}
            elif streaming and not message.get("more_body", False):
                # A comment, which clients of event streams skip: the head was sent long ago.
                end = b": %s %d\n\n" % (rules.VERSION_END, self._page.read().version)
                message = {**message, "body": message.get("body", b"") + end}
            await send(message)

        return sending
