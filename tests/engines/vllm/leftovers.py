"""What servers leave in shared memory when they are killed: message buffers, pieces of Python's own.

A server's pieces are noted while it lives, and swept when it has gone: nobody else's are touched."""

import os
import pathlib

SHM = "/dev/shm/"
KINDS = ("vllm_dist_", "psm_", "sem.mp-")
_noted = set()


def _processes(leader):
    """The processes of a leader's session."""
    for entry in os.listdir("/proc"):
        try:
            if entry.isdigit() and os.getsid(int(entry)) == leader:
                yield entry
        except OSError:
            pass


def note(leader):
    """Remember what the processes of this session map."""
    for process in _processes(leader):
        try:
            maps = pathlib.Path(f"/proc/{process}/maps").read_text(encoding="utf-8", errors="replace")
        except OSError:
            continue  # It ended meanwhile.
        names = (line.partition(SHM)[2].strip() for line in maps.splitlines())
        _noted.update(name for name in names if name.startswith(KINDS))


def sweep():
    """All servers that were noted have gone."""
    while _noted:
        pathlib.Path(SHM, _noted.pop()).unlink(missing_ok=True)
