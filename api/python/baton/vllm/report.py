"""What one rank tells its agent (engine contract, section 2)."""

PROTOCOL = 1
RESIDENT, LANDED = "resident", "landed"


class Report:
    """The outcomes so far.  Every value is plain JSON."""

    def __init__(self, rank, world_size):
        self.rank = rank
        self.world_size = world_size
        self.live, self.live_why = False, ""
        self.initialized = False
        self.session = False
        self.staged = None
        self.applied = None
        self.resident = None
        self.readback = None
        self.seconds = {"stage": 0.0, "load": 0.0, "finalize": 0.0, "verify": 0.0}

    def outcome(self, version_digest, fence, error=None):
        """A `staged` or `applied` object."""
        return {
            "ok": error is None,
            "version_digest": version_digest,
            "fence": list(fence) if fence is not None else None,
            "error": error.record(self.rank) if error is not None else None,
        }

    def as_json(self, fence):
        return {
            "protocol": PROTOCOL,
            "rank": self.rank,
            "world_size": self.world_size,
            "live": self.live,
            "live_why": self.live_why,
            "initialized": self.initialized,
            "session": self.session,
            "fence": list(fence) if fence is not None else None,
            "staged": self.staged,
            "applied": self.applied,
            "resident": self.resident,
            "readback": self.readback,
            "seconds": {phase: round(value, 6) for phase, value in self.seconds.items()},
        }
