"""Waiting at the gate: one poller for all who wait, and a request body that can be read twice."""

import asyncio

POLL_SECONDS = 0.002
BUFFER_BYTES = 4 << 20


class Turnstile:
    """Wakes everybody who waits whenever the page stops saying "hold".

    One task reads the page however many requests wait; it runs only while somebody does."""

    def __init__(self, page, hold_gate):
        self._page = page
        self._hold = hold_gate
        self._waiting = set()
        self._poller = None

    async def _poll(self):
        while self._waiting:
            if self._page.read().gate != self._hold:
                for future in self._waiting:
                    if not future.done():
                        future.set_result(None)
                self._waiting.clear()
            await asyncio.sleep(POLL_SECONDS)

    def enter(self):
        """A future that is done once the page no longer says "hold"."""
        future = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return future

    def leave(self, future):
        self._waiting.discard(future)
        future.cancel()


class Body:
    """Reads a request ahead while it waits, to notice a client that leaves; gives it out later.

    At most BUFFER_BYTES are read ahead: beyond, a departure is noticed after the wait."""

    def __init__(self, receive):
        self._receive = receive
        self._kept = []
        self._bytes = 0

    async def left(self):
        """Returns when the client has left."""
        while self._bytes <= BUFFER_BYTES:
            message = await self._receive()
            if message["type"] in ("http.disconnect", "websocket.disconnect"):
                self._kept.append(message)
                return
            self._kept.append(message)
            self._bytes += len(message.get("body", b""))
        await asyncio.get_running_loop().create_future()

    async def receive(self):
        """The ASGI receive callable for the application behind."""
        return self._kept.pop(0) if self._kept else await self._receive()


async def wait_at(turnstile, body, seconds):
    """True when the gate changed, False when the time was up, None when the client left."""
    opened = turnstile.enter()
    left = asyncio.ensure_future(body.left())
    try:
        await asyncio.wait({opened, left}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if left.done():
            return None
        return opened.done()
    finally:
        turnstile.leave(opened)
        await _end(left)


async def _end(task):
    """Cancel a task and let it finish, so that it takes no message afterwards."""
    task.cancel()
    await asyncio.wait({task})
