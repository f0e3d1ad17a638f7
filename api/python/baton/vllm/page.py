"""The page of memory that a guard shares with its agent: layout, the guard's section, reading.

The C side is agent/engine/guard_page.h.  The agent writes bytes 8 to 127, the guard the rest."""

import fcntl
import mmap
import os
import struct
import time
from collections import namedtuple

SIZE = 4096
MAGIC = 0x31504742
LAYOUT = 1
SHUT, OPEN, HOLD = 0, 1, 2
NAMES = {SHUT: "shut", OPEN: "open", HOLD: "hold"}

_HEAD = struct.Struct("<II")
_SEQUENCE = struct.Struct("<Q")
_AGENT = struct.Struct("<IIQQQI")
_BOOTS = struct.Struct("<Q")
_COUNTER = struct.Struct("<I")
_AT_SEQUENCE, _AT_AGENT = 8, 16
_AT_BOOTS, _AT_BOOT_ID, _AT_PID, _AT_HELD, _AT_ACTIVE = 128, 136, 152, 156, 160
_TRIES = 1000
_LOCK_SECONDS = 5

# gate is the effective one: shut unless it was opened (or held) for this boot.
View = namedtuple("View", "gate hold_max hold_ms version salt")
CLOSED = View(SHUT, 0, 0, 0, False)


def _lock(descriptor, path):
    """Take the file's lock, in bounded time: whoever else holds it does so for microseconds."""
    deadline = time.monotonic() + _LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() > deadline:
                message = f"guard page {path} is locked by another process; stop that and restart"
                raise RuntimeError(message) from None
            time.sleep(0.01)


def _map(path):
    """The page's file, created and stamped by whoever comes first, locked while that happens."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _lock(descriptor, path)
        if os.fstat(descriptor).st_size == 0:
            os.ftruncate(descriptor, SIZE)
        if os.fstat(descriptor).st_size != SIZE:
            raise RuntimeError(f"guard page {path} is not {SIZE} bytes long; remove it and restart")
        memory = mmap.mmap(descriptor, SIZE)
        if not any(memory[: _HEAD.size]):
            _HEAD.pack_into(memory, 0, MAGIC, LAYOUT)
        boots = _announce(memory)
    finally:
        # By hand: the mapping keeps the open file, and with it the lock, alive after close().
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
    return memory, boots


def _announce(memory):
    """Write a new incarnation into a page of a known layout; None for another layout."""
    if _HEAD.unpack_from(memory, 0) != (MAGIC, LAYOUT):
        return None
    boots = _BOOTS.unpack_from(memory, _AT_BOOTS)[0] + 1
    memory[_AT_BOOT_ID : _AT_BOOT_ID + 16] = os.urandom(16)
    _COUNTER.pack_into(memory, _AT_PID, os.getpid())
    _COUNTER.pack_into(memory, _AT_HELD, 0)
    _COUNTER.pack_into(memory, _AT_ACTIVE, 0)
    _BOOTS.pack_into(memory, _AT_BOOTS, boots)
    return boots


class Page:
    """One mapped page.  For one thread: the API server's event loop."""

    def __init__(self, path):
        self._memory, self.boots = _map(path)
        self.held = 0
        self.active = 0

    @property
    def boot_id(self):
        return self._memory[_AT_BOOT_ID : _AT_BOOT_ID + 16].hex()

    def _agent_section(self):
        """(gate, hold_max, hold_ms, opened_for, version, salt), or None if it never held still."""
        for _ in range(_TRIES):
            before = _SEQUENCE.unpack_from(self._memory, _AT_SEQUENCE)[0]
            section = _AGENT.unpack_from(self._memory, _AT_AGENT)
            after = _SEQUENCE.unpack_from(self._memory, _AT_SEQUENCE)[0]
            if before == after and before % 2 == 0:
                return section
        return None

    def read(self):
        """What the agent says now.  Anything unclear reads as shut."""
        if self.boots is None or _HEAD.unpack_from(self._memory, 0) != (MAGIC, LAYOUT):
            return CLOSED
        section = self._agent_section()
        if section is None:
            return CLOSED
        gate, hold_max, hold_ms, opened_for, version, salt = section
        if _BOOTS.unpack_from(self._memory, _AT_BOOTS)[0] != self.boots:
            return CLOSED._replace(version=version, salt=salt == 1)
        if opened_for != self.boots or gate not in (OPEN, HOLD):
            gate = SHUT
        return View(gate, hold_max, hold_ms, version, salt == 1)

    def count_held(self, change):
        self.held += change
        if self.boots is not None:
            _COUNTER.pack_into(self._memory, _AT_HELD, self.held)

    def count_active(self, change):
        self.active += change
        if self.boots is not None:
            _COUNTER.pack_into(self._memory, _AT_ACTIVE, self.active)
