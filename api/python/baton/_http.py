"""Requests to engines over kept connections, each below a deadline, each of which another thread may end.  Private to the package."""

import http.client
import os
import socket
import threading
import time
import urllib.parse

_ANSWER_BYTES_MAX = 256 << 20
_IDLE_MAX = 256  # Kept connections to one engine.
_READ_BYTES = 1 << 16


class Flight:
    """One caller's request, whichever engine it is at; cancel() may be called from another thread and holds for good."""

    def __init__(self):
        self._lock, self._socket = threading.Lock(), None
        self.cancelled = threading.Event()

    def cancel(self):
        """Cuts the connection, so that the engine sees that nobody waits for the answer."""
        with self._lock:
            self.cancelled.set()
            _cut(self._socket)

    def hold(self, connection):
        """What cancel() will cut from here on; None: nothing."""
        with self._lock:
            self._socket = connection and connection.sock
            if self.cancelled.is_set():
                _cut(self._socket)


def _cut(connected):
    if connected is not None:
        try:
            connected.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def _connect(where, timeout):
    kind = http.client.HTTPSConnection if where.scheme == "https" else http.client.HTTPConnection
    connection = kind(where.hostname, where.port, timeout=timeout)
    connection.connect()
    return connection


def _read(response, connection, deadline):
    """The whole body; TimeoutError for one that trickles beyond the deadline."""
    parts, size = [], 0
    while part := response.read1(_READ_BYTES):
        parts.append(part)
        size += len(part)
        if size > _ANSWER_BYTES_MAX:
            raise http.client.HTTPException(f"the answer is larger than {_ANSWER_BYTES_MAX} bytes")
        if connection.sock is not None:
            connection.sock.settimeout(_left(deadline))
    response.read()  # Nothing is left, but only this makes the connection ready for another request.
    return b"".join(parts)


def _left(deadline):
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError("no answer in time")
    return left


class Pool:
    """Connections by engine.  Any thread; a forked child begins with none."""

    def __init__(self):
        self._begin()

    def _begin(self):
        self._lock, self._idle, self._pid = threading.Lock(), {}, os.getpid()

    def post(self, url, path, body, headers, timeout, flight):
        """(status, headers, body).  OSError or HTTPException where there is no whole answer."""
        deadline, where = time.monotonic() + timeout, urllib.parse.urlsplit(url)
        key = (where.scheme, where.hostname, where.port)
        while (kept := self._take(key)) is not None:
            try:
                return self._exchange(key, kept, (where.path + path, body, headers), deadline, flight)
            except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError):
                if flight.cancelled.is_set():
                    raise  # It was cut by its caller; the others are whole.
                continue  # It was shut while it lay there, or its engine has restarted: a fresh one tells.
        return self._exchange(key, _connect(where, _left(deadline)), (where.path + path, body, headers), deadline, flight)

    def _exchange(self, key, connection, request, deadline, flight):
        path, body, headers = request
        try:
            connection.sock.settimeout(_left(deadline))
            flight.hold(connection)
            connection.request("POST", path, body, headers)
            response = connection.getresponse()
            raw = _read(response, connection, deadline)
        except BaseException:
            flight.hold(None)
            connection.close()
            raise
        flight.hold(None)
        self._give(key, connection, response)
        return response.status, response.headers, raw

    def _take(self, key):
        if self._pid != os.getpid():
            self._begin()
        with self._lock:
            idle = self._idle.get(key)
            return idle.pop() if idle else None

    def _give(self, key, connection, response):
        with self._lock:
            idle = self._idle.setdefault(key, [])
            if connection.sock is not None and not response.will_close and len(idle) < _IDLE_MAX:
                idle.append(connection)
                return
        connection.close()

    def close(self):
        """Ends all kept connections."""
        with self._lock:
            idle, self._idle = self._idle, {}
        for connection in (one for many in idle.values() for one in many):
            connection.close()
