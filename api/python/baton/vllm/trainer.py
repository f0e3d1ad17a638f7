"""Baton behind vLLM's own trainer-side interface (0.28 on): a framework that uses it changes the backend and the init info, nothing else.

    import baton.vllm
    from vllm.distributed.weight_transfer import WeightTransferTrainerFactory

    baton.vllm.register()
    info = baton.vllm.trainer.BatonTrainerInitInfo(model="qwen3-8b-grpo", files="/models/qwen3-8b", rank=rank)
    engine = WeightTransferTrainerFactory.trainer_init(info, client=None, source=ModuleSource(model))
    engine.send_weights(optimizer_step=step)

The client is never called: agents swap the engines in, group by group, while the others serve.  send_weights() returns when the version is
published, not when every group serves it; a loop that must wait for that asks ``batonctl wait MODEL --for=converged``.
"""

import dataclasses
import typing

from vllm.distributed.weight_transfer.base import TrainerInitInfo, TrainerWeightTransferEngine

from baton import _ranks
from baton.publisher import Publisher


@dataclasses.dataclass
class BatonTrainerInitInfo(TrainerInitInfo):
    """Which model is published, through which agent; ``files`` and ``dtype`` as of Publisher.publish()."""

    backend: typing.ClassVar[str] = "baton"

    model: str
    agent: typing.Optional[str] = None
    files: typing.Any = None
    dtype: typing.Optional[str] = None
    rank_timeout: float = 300.0


class BatonTrainer(TrainerWeightTransferEngine[BatonTrainerInitInfo]):
    """All ranks go through the source together, as its tensors are put together by all; rank 0 publishes what it sees, and tells the others."""

    init_info_cls = BatonTrainerInitInfo

    def __init__(self, info, *, client, source):
        super().__init__(client=client, source=source, is_sender=info.is_sender)
        self.info, self.version = info, None
        self._publisher = Publisher(info.model, agent=info.agent, ranks="one")

    @classmethod
    def trainer_init(cls, init_info, *, client, source=None):
        """No rendezvous: the agent is asked at each send."""
        if source is None:
            raise ValueError("the backend 'baton' publishes whole versions: it needs a WeightSource")
        if source.held_names() is not None:
            raise ValueError("this source holds a part of the model at each rank: publish it with baton.Publisher, which puts parts together")
        return cls(init_info, client=client, source=source)

    def send_weights(self, **facts):
        """Publishes the source's tensors; the keywords are those of Publisher.publish().  Gives the Version, at every rank."""
        job = _ranks.job(self.info.rank_timeout)
        if job is not None and self.is_sender != (job.rank == 0):
            # What the job's first rank says is what all learn: of another sender nobody would learn that it failed.
            raise ValueError(f"rank {self.info.rank} of BatonTrainerInitInfo is rank {job.rank} of torch.distributed: give the latter")
        passing, version, error = iter(self.source), None, None
        try:
            if self.is_sender:
                version = self._publisher.publish(passing, files=self.info.files, dtype=self.info.dtype, **facts)
        except Exception as failure:  # pylint: disable=broad-except
            error = _ranks.portable(failure)
        for _ in passing:
            pass  # Also after a failure: what is put together by all ranks needs all of them.
        if job is not None:
            version, error = job.tell((version, error))
        if error is not None:
            raise error
        self.version = version
        return version
