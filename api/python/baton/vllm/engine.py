"""The weight-transfer engine ``baton``: stage and check first, then apply on all ranks or on none.

deploy/docs/engine-contract.md, section 2, is what it keeps.  One instance a worker, called on the
worker's main thread only.  No call raises: outcomes are recorded and fetched by baton_report."""

import logging
import os
import time
from collections import namedtuple
from dataclasses import dataclass, field

from vllm.config import set_current_vllm_config
from vllm.distributed.weight_transfer.base import WeightTransferEngine
from vllm.model_executor.model_loader.reload import (
    finalize_layerwise_reload,
    initialize_layerwise_reload,
)

from baton.vllm import fence, landing, needs, peers, readback, refusal, report, snapshot, worker
from baton.vllm.refusal import Refusal

log = logging.getLogger("baton.engine")

_UPDATE_FIELDS = {"landing", "version_digest", "fence"}
_LIVE_FIELDS = {"version_digest", "fence"}
_MISMATCHED_SHOWN = 16
_ENDED_ITSELF = 70

Staged = namedtuple("Staged", "landing fence")


@dataclass
class InitInfo:
    """Payload of init.  Any fields are taken, so that a wrong one is recorded, not raised."""

    values: dict = field(default_factory=dict)


@dataclass
class UpdateInfo:
    """Payload of update, likewise."""

    values: dict = field(default_factory=dict)


class BatonEngine(WeightTransferEngine):
    """See the module."""

    init_info_cls = InitInfo
    update_info_cls = UpdateInfo
    supports_draft_weight_update = False

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        worker.attach()
        self._peers = peers.Peers(self.parallel_config)
        whole = getattr(self.parallel_config, "pipeline_parallel_size", 1) == 1
        self._needs = needs.of_model(self.model, self.model_config, whole)
        self._fences = fence.Fences()
        self._staged = None
        self._suspect_kv = ()
        self._report = report.Report(self._peers.rank, self._peers.size)
        self._report.live_why = self._live_obstacle() or "all ranks change between two steps"
        self._report.live = self._live_obstacle() is None

    # vLLM's four phases.

    def parse_init_info(self, init_dict):
        return InitInfo(init_dict)

    def parse_update_info(self, update_dict):
        return UpdateInfo(update_dict)

    def init_transfer_engine(self, init_info):
        """Once an incarnation.  Report's `initialized` says whether the protocol was right."""
        self._report.initialized = init_info.values == {"protocol": report.PROTOCOL}

    def start_weight_update(self):
        """Open the session.  Touches nothing, also not what is staged: an update replaces it."""
        self._report.session = True

    def update_weights(self, update_info):
        """Stage.  Touches no weight."""
        self.receive_weights(UpdateInfo(update_info))

    def receive_weights(self, update_info):
        self._stage(update_info.values, in_session=True)

    def _stage(self, values, in_session):
        began = time.monotonic()
        place, error = None, None
        try:
            place = self._admit(values, in_session)
            version = landing.Landing(values["landing"], values["version_digest"], self._wanted())
            self._staged = Staged(version, place)
        except Exception as caught:
            error = refusal.of(caught, refusal.INTERNAL)
            log.warning("baton: stage refused: %s: %s", error.code, error)
        self._report.seconds["stage"] = time.monotonic() - began
        if error is None or error.code != refusal.FENCED or self._staged is None:
            named = values.get("version_digest") if isinstance(values, dict) else None
            self._report.staged = self._report.outcome(named, place, error)

    def finish_weight_update(self):
        """Apply what all ranks staged, or nothing."""
        staged, self._staged = self._staged, None
        self._report.session = False
        try:
            self._finish(staged)
        except Exception as caught:
            log.exception("baton: finish failed")
            self._record_applied(staged, refusal.of(caught, refusal.INTERNAL), restored=True)

    def shutdown(self):
        self._staged = None

    @staticmethod
    def trainer_send_weights(*_args, **_kwargs):
        """Asked for by vLLM 0.26 and 0.27: trainers publish through Baton's own library."""
        raise NotImplementedError("publish with baton.Publisher")

    # The calls of /collective_rpc.

    def raise_fence(self, value):
        """Raise the fence; drop what was staged under a lower one."""
        try:
            place = self._fences.admit(value)
        except Refusal as error:
            self._report.staged = self._report.staged or self._report.outcome(None, None, error)
            return self.status()
        if self._staged is not None and self._staged.fence < place:
            dropped, self._staged = self._staged, None
            error = Refusal(refusal.FENCED, f"dropped: the fence rose to {list(place)}")
            digest = dropped.landing.version_digest
            self._report.staged = self._report.outcome(digest, dropped.fence, error)
        return self.status()

    def prepare(self, values):
        """Stage beside a serving model, without a session of vLLM's.  Touches no weight."""
        self._stage(values, in_session=False)
        return self.status()

    def swap_live(self, values):
        """Apply what was prepared under the same ticket, on all ranks or on none, while requests run.

        Called between two steps of the engine, and nothing generates before it returns.  A rank that can
        neither go on nor back, or does not know what the others did, ends its process, and so the engine."""
        staged, error = None, None
        try:
            staged = self._admit_live(values)
        except Exception as caught:
            error = refusal.of(caught, refusal.INTERNAL)
            log.warning("baton: live swap refused: %s: %s", error.code, error)
        self._staged = None
        self._report.session = False
        try:
            self._finish(staged, live=True)
        except Exception:
            log.exception("baton: nobody knows what the ranks hold")
            self._end_itself()
        if error is not None:
            place, named = None, None
            if isinstance(values, dict):
                place, named = values.get("fence"), values.get("version_digest")
            found = self._report.outcome(named, place, error)
            self._report.applied = {**found, "restored": True}
        return self.status()

    def status(self):
        return self._report.as_json(self._fences.highest)

    def read_back(self, folder, version_digest):
        """Compare the resident weights with a landing's.  Changes nothing."""
        try:
            version = landing.Landing(folder, version_digest, self._wanted())
            self._compare(version)
        except Exception as caught:
            error = refusal.of(caught, refusal.INTERNAL)
            self._record_readback(version_digest, 0, [], 0.0, error)
        return self.status()

    def note_refused(self, caught):
        """vLLM itself refused an update before it reached this engine."""
        error = refusal.of(caught, refusal.BAD_REQUEST)
        self._report.staged = self._report.outcome(None, None, error)

    def note_foreign_load(self, kv_caches):
        """Somebody else is about to load weights: what is resident then is unknown, and so is every
        number that they compute into these KV tensors."""
        self._report.resident = None
        self._suspect_kv = kv_caches

    # Stage.

    def _wanted(self):
        if self._needs.expected is None:
            message = "what this model takes is unknown: serve it from a local checkpoint folder"
            raise Refusal(refusal.INTERNAL, message)
        return self._needs

    def _admit(self, values, in_session):
        """Check an update's fields and fence; forget what was staged before."""
        if not isinstance(values, dict) or set(values) != _UPDATE_FIELDS:
            names = ", ".join(sorted(_UPDATE_FIELDS))
            raise Refusal(refusal.BAD_REQUEST, f"update_info must have exactly {names}")
        place = self._fences.admit(values["fence"])
        self._staged = None
        if in_session and not self._report.session:
            raise Refusal(refusal.BAD_REQUEST, "update before start")
        return place

    # Live.

    def _live_obstacle(self):
        """Why this engine's ranks cannot all change between the same two steps, or None."""
        config = self.parallel_config
        if getattr(config, "pipeline_parallel_size", 1) != 1:
            return "its ranks form a pipeline: they are never all between the same two steps"
        if getattr(config, "data_parallel_size", 1) != 1:
            return "its data parallel replicas do not step together"
        if self._needs.pieces is None:
            return "its resident weights cannot be read back"
        return None

    def _admit_live(self, values):
        """What was prepared, under the fence of this call.  Refusal: nothing of this rank changes."""
        if not isinstance(values, dict) or set(values) != _LIVE_FIELDS:
            names = ", ".join(sorted(_LIVE_FIELDS))
            raise Refusal(refusal.BAD_REQUEST, f"a live swap must be given exactly {names}")
        place = self._fences.admit(values["fence"])
        obstacle, staged = self._live_obstacle(), self._staged
        if obstacle is not None:
            raise Refusal(refusal.BAD_REQUEST, obstacle)
        if self._suspect_kv:
            message = "cached KV may be of weights that nobody verified: it cannot be kept"
            raise Refusal(refusal.BAD_REQUEST, message)
        known = staged is not None and staged.landing.version_digest == values["version_digest"]
        if not known or staged.fence[:-1] != place[:-1]:
            raise Refusal(refusal.BAD_REQUEST, "it was not prepared under this ticket")
        return Staged(staged.landing, place)

    @staticmethod
    def _end_itself():
        """The engine dies with a rank; its guard boots shut, and its agent recreates it."""
        os._exit(_ENDED_ITSELF)

    # Apply.

    def _finish(self, staged, live=False):
        mine = None
        if staged is not None:
            mine = (staged.landing.version_digest, staged.fence)
        found = self._peers.exchange(mine)
        if all(other is None for other in found):
            return
        if any(other != found[0] for other in found):
            ranks = [rank for rank, other in enumerate(found) if other != mine]
            error = Refusal(refusal.PEER_FAILED, f"rank {ranks} did not stage the same version")
            self._record_applied(staged, error, restored=True)
            return
        self._apply(staged, live)

    def _apply(self, staged, live):
        error, saved = None, None
        try:
            if snapshot.is_torn(self.model):
                message = "another load was left half done: recreate the engine"
                raise Refusal(refusal.RESTORE_FAILED, message)
            saved = snapshot.Snapshot(self.model)
            self._load(staged.landing)
            self._compare(staged.landing, must=True)
        except Exception as caught:
            log.exception("baton: apply failed")
            error = refusal.of(caught, refusal.LOAD_FAILED)
        error = self._agree(error, live)
        if error is None:
            self._clear_suspect_kv()
            self._record_applied(staged, None, restored=False)
            level = self._report.readback["level"]
            digest = staged.landing.version_digest
            self._report.resident = {"version_digest": digest, "level": level}
            return
        restored = self._restore(saved)
        if live and not restored:
            self._end_itself()
        self._record_applied(staged, error, restored)

    def _agree(self, error, live):
        """This rank's error, or that another rank has one, or None: all is well everywhere."""
        try:
            found = self._peers.exchange(error.code if error else None)
        except Refusal as lost:
            if live:  # The others may have gone on.
                raise
            return error or lost
        ranks = [f"{rank} ({code})" for rank, code in enumerate(found) if code is not None]
        if ranks and error is None:
            return Refusal(refusal.PEER_FAILED, f"failed on rank {', '.join(ranks)}")
        return error

    def _weights(self, version):
        """What is loaded, in order."""
        yield from version.items()

    def _load(self, version):
        began = time.monotonic()
        with set_current_vllm_config(self.vllm_config):
            initialize_layerwise_reload(self.model)
            self.model.load_weights(self._weights(version))
            loaded = time.monotonic()
            finalize_layerwise_reload(self.model, self.model_config)
            self._pack_shared()
        self._report.seconds["load"] = loaded - began
        self._report.seconds["finalize"] = time.monotonic() - loaded
        if snapshot.is_torn(self.model):
            raise Refusal(refusal.LOAD_FAILED, "a parameter got no weights")

    def _clear_suspect_kv(self):
        """Forgetting which blocks hold what is not enough after weights that nobody verified.

        vLLM's CPU attention multiplies the unused rows of a block by zero, and a NaN left there by
        broken weights stays NaN: sound weights then gave no number at all (seen on 0.32)."""
        kv_caches, self._suspect_kv = self._suspect_kv, ()
        for tensor in kv_caches:
            tensor.zero_()

    def _pack_shared(self):
        """Let layers that share an earlier layer's parameter pack it again.

        vLLM packs a tied output layer at the first load only: on a CPU it would go on multiplying
        by the old weights (seen on 0.32)."""
        for piece in self._needs.pieces or ():
            if piece.shared:
                piece.layer.quant_method.process_weights_after_loading(piece.layer)

    def _compare(self, version, must=False):
        """Read back and record.  With `must`, a difference is a Refusal."""
        began = time.monotonic()
        count, wrong = 0, []
        if self._needs.pieces is not None:
            count, wrong = readback.compare(self._needs.pieces, version.tensors)
        seconds = time.monotonic() - began
        self._report.seconds["verify"] = seconds
        self._record_readback(version.version_digest, count, wrong, seconds)
        if must and wrong:
            message = f"{len(wrong)} of {count} tensors are not what was loaded, first {wrong[0]}"
            raise Refusal(refusal.VERIFY_FAILED, message, wrong[0])

    def _restore(self, saved):
        """True: this rank is as it was before.  Else the engine must be recreated."""
        if saved is None:
            return not snapshot.is_torn(self.model)
        try:
            saved.restore()
            return True
        except Exception:
            log.exception("baton: the saved weights could not be put back")
            self._report.resident = None
            return False

    # Records.

    def _record_applied(self, staged, error, restored):
        digest = staged.landing.version_digest if staged else None
        found = self._report.outcome(digest, staged.fence if staged else None, error)
        self._report.applied = {**found, "restored": restored}

    def _record_readback(self, digest, count, wrong, seconds, error=None):
        self._report.readback = {
            "ok": error is None and not wrong,
            "version_digest": digest,
            "level": report.RESIDENT if count else report.LANDED,
            "tensors": count,
            "mismatched": wrong[:_MISMATCHED_SHOWN],
            "seconds": round(seconds, 6),
            "error": error.record(self._report.rank) if error else None,
        }
