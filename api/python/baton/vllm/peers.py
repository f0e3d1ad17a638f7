"""Agreement between the ranks of one engine, on a CPU group of our own with a deadline."""

from datetime import timedelta

import torch.distributed

from baton.vllm.refusal import PEER_FAILED, Refusal

DEADLINE_SECONDS = 60


class Peers:
    """The ranks of this engine's replica (tensor and pipeline parallel)."""

    def __init__(self, parallel_config):
        self.size = parallel_config.world_size
        self.rank = 0
        self._group = None
        if self.size > 1:
            mine = torch.distributed.get_rank()
            first = mine - mine % self.size
            self.rank = mine - first
            self._group = torch.distributed.new_group(
                ranks=list(range(first, first + self.size)),
                timeout=timedelta(seconds=DEADLINE_SECONDS),
                backend="gloo",
                use_local_synchronization=True,
            )

    def exchange(self, mine):
        """Everybody's value, by rank.  Refusal: PEER_FAILED when one does not come in time."""
        if self._group is None:
            return [mine]
        found = [None] * self.size
        try:
            torch.distributed.all_gather_object(found, mine, group=self._group)
        except RuntimeError as error:
            message = f"not all {self.size} ranks answered within {DEADLINE_SECONDS} s: {error}"
            raise Refusal(PEER_FAILED, message) from error
        return found
