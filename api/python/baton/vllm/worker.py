"""Attaches Baton's calls to vLLM's worker class, and keeps its phases from raising.

With several ranks vLLM reads the workers' answers in order and stops at the first error, so that
every later answer belongs to the call before it.  A phase in the wrong order (a finish without a
start) must therefore be recorded like any other refusal.  Workers whose engine is not Baton's are
left as they are."""

import functools
import logging

log = logging.getLogger("baton.engine")

_ATTACHED = "_baton_attached"


def _engine(worker):
    """Baton's engine in a worker, or None."""
    engine = getattr(worker, "weight_transfer_engine", None)
    return engine if hasattr(engine, "raise_fence") else None


def baton_fence(self, fence=None, **_unknown):
    """Raise the fence.  Like the others it takes any arguments: a wrong call must not raise."""
    return _engine(self).raise_fence(fence)


def baton_report(self, **_unknown):
    """The outcomes so far."""
    return _engine(self).status()


def baton_readback(self, landing=None, version_digest=None, **_unknown):
    """Compare the resident weights with a landing's."""
    return _engine(self).read_back(landing, version_digest)


def baton_prepare(self, **values):
    """Hold a landing's weights beside those that serve."""
    return _engine(self).prepare(values)


def baton_live(self, **values):
    """Make what was prepared resident, between two steps, while requests run."""
    return _engine(self).swap_live(values)


def _quiet(original, active):
    """A phase that never raises.  `active`: what vLLM's own session flag must be to let it pass."""

    @functools.wraps(original)
    def phase(self, *args, **kwargs):
        engine = _engine(self)
        if engine is None:
            return original(self, *args, **kwargs)
        self._weight_update_active = active
        try:
            return original(self, *args, **kwargs)
        except Exception as caught:
            log.warning("baton: %s refused: %s", original.__name__, caught)
            engine.note_refused(caught)
            return None

    return phase


def _watched(original):
    """A load that is not Baton's (stock reload): the engine must know that it happened."""

    @functools.wraps(original)
    def load(self, *args, **kwargs):
        engine = _engine(self)
        if engine is not None:
            engine.note_foreign_load(getattr(self.model_runner, "kv_caches", ()))
        return original(self, *args, **kwargs)

    return load


def attach():
    """Once a process; called when the first engine is made, inside a worker."""
    from vllm.v1.worker.gpu_worker import Worker

    if getattr(Worker, _ATTACHED, False):
        return
    for call in (baton_fence, baton_report, baton_readback, baton_prepare, baton_live):
        setattr(Worker, call.__name__, call)
    for name, active in (
        ("start_weight_update", False),
        ("start_draft_weight_update", False),
        ("update_weights", True),
        ("finish_weight_update", True),
    ):
        setattr(Worker, name, _quiet(getattr(Worker, name), active))
    Worker.reload_weights = _watched(Worker.reload_weights)
    setattr(Worker, _ATTACHED, True)
