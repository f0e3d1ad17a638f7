"""Baton for Python.

``baton.vllm`` is what runs inside a vLLM server, ``baton.Publisher`` publishes weights from a trainer, ``baton.Rollout``
generates with the fleet's engines.  Importing this package imports nothing heavy: each comes with its first use.
"""

__version__ = "0.1.0"

_PUBLISHER = ("Publisher", "Pending", "Progress", "Version")
_WEIGHTS = ("Shard", "merged")
_SNAPSHOT = ("Snapshot",)
_ROLLOUT = ("Rollout", "AsyncRollout", "Answer", "Endpoint", "Session", "Slots", "Span", "Verdict")
_ERRORS = (
    "BatonError",
    "Cancelled",
    "DeadlineExceeded",
    "FailedPrecondition",
    "InvalidArgument",
    "NotFound",
    "ResourceExhausted",
    "Unavailable",
)

__all__ = ["__version__", *_PUBLISHER, *_WEIGHTS, *_SNAPSHOT, *_ROLLOUT, *_ERRORS]


def __getattr__(name):
    if name in _PUBLISHER:
        from . import publisher as home
    elif name in _SNAPSHOT:
        from . import snapshot as home
    elif name in _ROLLOUT:
        from . import rollout as home
    elif name in _ERRORS:
        from . import _libbaton as home
    elif name == "Shard":
        from . import _entries as home
    elif name == "merged":
        from . import adapters as home
    else:
        raise AttributeError(f"module 'baton' has no attribute '{name}'")
    return getattr(home, name)
