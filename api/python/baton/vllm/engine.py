"""The weight-transfer engine ``baton``: stage and check first, then apply on all ranks or on none.

deploy/docs/engine-contract.md, section 2, is what it keeps.  One instance a worker, called on the
worker's main thread only.  No call raises: outcomes are recorded and fetched by baton_report."""

import logging
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
_MISMATCHED_SHOWN = 16

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
        began = time.monotonic()
        values, place, error = update_info.values, None, None
        try:
            place = self._admit(values)
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

    def _admit(self, values):
        """Check an update's fields and fence; forget what was staged before."""
        if not isinstance(values, dict) or set(values) != _UPDATE_FIELDS:
            names = ", ".join(sorted(_UPDATE_FIELDS))
            raise Refusal(refusal.BAD_REQUEST, f"update_info must have exactly {names}")
        place = self._fences.admit(values["fence"])
        self._staged = None
        if not self._report.session:
            raise Refusal(refusal.BAD_REQUEST, "update before start")
        return place

    # Apply.

    def _finish(self, staged):
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
        self._apply(staged)

    def _apply(self, staged):
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
        error = self._agree(error)
        if error is None:
            self._clear_suspect_kv()
            self._record_applied(staged, None, restored=False)
            level = self._report.readback["level"]
            digest = staged.landing.version_digest
            self._report.resident = {"version_digest": digest, "level": level}
            return
        self._record_applied(staged, error, restored=self._restore(saved))

    def _agree(self, error):
        """This rank's error, or that another rank has one, or None: all is well everywhere."""
        try:
            found = self._peers.exchange(error.code if error else None)
        except Refusal as lost:
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
