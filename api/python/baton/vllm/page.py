"""The page of memory that a guard shares with its agent: layout, the guard's section, reading.

The C side is agent/engine/guard_page.h.  The agent writes bytes 8 to 127, the guard the rest.

A server may have several API server processes, each with a guard.  They are one boot: the first of a launcher's
processes begins it, its siblings join, each with a slot for its own counts."""

import fcntl
import mmap
import multiprocessing
import os
import pathlib
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
_LAUNCHER = struct.Struct("<QQ")
_SLOT, _COUNTS = struct.Struct("<IIII"), struct.Struct("<II")
_AT_SEQUENCE, _AT_AGENT = 8, 16
_AT_BOOTS, _AT_BOOT_ID, _AT_PID, _AT_HELD, _AT_ACTIVE = 128, 136, 152, 156, 160
_AT_LAUNCHER, _AT_SLOTS, SLOTS = 168, 256, 64
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
        place = _announce(memory)
    finally:
        # By hand: the mapping keeps the open file, and with it the lock, alive after close().
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)
    return memory, place


def _life(pid):
    """(pid, start time) of a process; (pid, 0) if it has gone, or has ended and was not waited for yet."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return pid, 0
    fields = status.rpartition(")")[2].split()
    return pid, 0 if fields[0] in ("Z", "X") else int(fields[19]) & 0xFFFFFFFF


def _launcher():
    """The process whose API servers are siblings: our parent, if it made us as one."""
    parent = multiprocessing.parent_process()
    return _life(os.getpid() if parent is None else parent.pid)


def _slots(memory):
    """(pid, start time, held, active) of each sibling."""
    for i in range(SLOTS):
        slot = _SLOT.unpack_from(memory, _AT_SLOTS + i * _SLOT.size)
        if slot[0] == 0:
            return
        yield slot


def _has_siblings(memory, launcher):
    """The page's boot is of our launcher, is not an earlier one of ours, and its first process lives."""
    lives = [(pid, start) for pid, start, _, _ in _slots(memory)]
    same = _LAUNCHER.unpack_from(memory, _AT_LAUNCHER) == launcher
    return same and bool(lives) and _life(os.getpid()) not in lives and _life(lives[0][0]) == lives[0]


def _announce(memory):
    """(boots, our slot): of our siblings' boot, else of a new one; None for another layout."""
    if _HEAD.unpack_from(memory, 0) != (MAGIC, LAYOUT):
        return None
    launcher, slot = _launcher(), 0
    if _has_siblings(memory, launcher):
        slot, boots = sum(1 for _ in _slots(memory)), _BOOTS.unpack_from(memory, _AT_BOOTS)[0]
    else:
        boots = _begin(memory, launcher)
    if slot == SLOTS:
        raise RuntimeError(f"more than {SLOTS} API server processes; start it with a smaller --api-server-count")
    _SLOT.pack_into(memory, _AT_SLOTS + slot * _SLOT.size, *_life(os.getpid()), 0, 0)
    return boots, slot


def _begin(memory, launcher):
    """A new incarnation."""
    boots = _BOOTS.unpack_from(memory, _AT_BOOTS)[0] + 1
    memory[_AT_BOOT_ID : _AT_BOOT_ID + 16] = os.urandom(16)
    _COUNTER.pack_into(memory, _AT_PID, os.getpid())
    _COUNTER.pack_into(memory, _AT_HELD, 0)
    _COUNTER.pack_into(memory, _AT_ACTIVE, 0)
    memory[_AT_SLOTS : _AT_SLOTS + SLOTS * _SLOT.size] = bytes(SLOTS * _SLOT.size)
    _LAUNCHER.pack_into(memory, _AT_LAUNCHER, *launcher)
    _BOOTS.pack_into(memory, _AT_BOOTS, boots)
    return boots


class Page:
    """One mapped page.  For one thread: the API server's event loop."""

    def __init__(self, path):
        self._memory, place = _map(path)
        self.boots, slot = place or (None, 0)
        self._at_counts = _AT_SLOTS + slot * _SLOT.size + 8
        self._held = self._active = 0

    @property
    def held(self):
        """Of all siblings."""
        return sum(held for _, _, held, _ in _slots(self._memory)) if self.boots is not None else self._held

    @property
    def active(self):
        return sum(active for _, _, _, active in _slots(self._memory)) if self.boots is not None else self._active

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
        self._held += change
        self._note()

    def count_active(self, change):
        self._active += change
        self._note()

    def _note(self):
        """Our slot, and the sums of all."""
        if self.boots is None or _BOOTS.unpack_from(self._memory, _AT_BOOTS)[0] != self.boots:
            return  # A later boot's page.
        _COUNTS.pack_into(self._memory, self._at_counts, self._held, self._active)
        _COUNTER.pack_into(self._memory, _AT_HELD, self.held)
        _COUNTER.pack_into(self._memory, _AT_ACTIVE, self.active)
