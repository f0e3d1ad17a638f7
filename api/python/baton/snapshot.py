"""Snapshots of a trainer's tensors, beside them.  See PUBLISHER.md.

torch is imported by whoever has such tensors already."""

import collections.abc

from . import _entries, _gpu, _tensors

# Left free on each GPU that a snapshot is put on, for what the trainer allocates meanwhile.
_MARGIN_BYTES = 1 << 30


def _room(device):
    """Bytes that a GPU can still give this process: what nobody has, and what torch keeps unused."""
    import torch

    free, _ = torch.cuda.mem_get_info(device)
    kept = torch.cuda.memory_stats(device)
    return free + kept.get("reserved_bytes.all.current", 0) - kept.get("allocated_bytes.all.current", 0)


def _needs(tensors):
    """Bytes by GPU; tensors that share their memory count once.  Looks at little: the trainer waits."""
    seen, needs = set(), {}
    for tensor in tensors:
        if _gpu.is_there(tensor) and str(tensor.layout) == "torch.strided":
            key, size = (tensor.data_ptr(), tensor.nbytes), tensor.nbytes
            if key not in seen:
                seen.add(key)
                needs[tensor.device] = needs.get(tensor.device, 0) + size
    return needs


def choose(needs, room):
    """(placement, why): "gpu" if each GPU has room for what it needs, else "host".  Both are bytes by GPU."""
    if not needs:
        return "host", "no tensor is on a GPU"
    for device, need in needs.items():
        if need + _MARGIN_BYTES > room[device]:
            why = f"{device}: {need} bytes and a margin of {_MARGIN_BYTES} are more than the {room[device]} free"
            return "host", why
    return "gpu", "; ".join(f"{device}: {need} of the {room[device]} bytes free" for device, need in needs.items())


def _beside(tensor, placement):
    """An empty tensor for a copy."""
    import torch

    if placement == "gpu" or not _gpu.is_there(tensor):
        return torch.empty(tensor.shape, dtype=tensor.dtype, device=tensor.device)
    return torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)


class Snapshot(collections.abc.Mapping):
    """A module's or a state dict's tensors as they were when this was made: train on, and publish it when you like, from another thread too.

    Copies of a GPU's tensors lie on that GPU where it has room ("gpu": the trainer is held up for one copy on the
    device), else in pinned memory of the host ("host": for the copy over the link); ``placement`` asks for one of them.
    ``placement`` and ``why`` tell what was chosen, ``bytes`` how much it holds.  Nothing is waited for here: the copies
    are enqueued on the current stream of each GPU, so that what is enqueued there later comes after them.
    Tensors that are the same memory as one before (tied embeddings) are left out.
    """

    def __init__(self, weights, placement=None):
        if placement not in (None, "gpu", "host"):
            raise ValueError(f'placement must be "gpu" or "host", not {placement!r}')
        if hasattr(weights, "state_dict"):
            weights = weights.state_dict()
        if not isinstance(weights, collections.abc.Mapping):
            raise _entries.refusal(f"a snapshot is of a module or a mapping, not of a {type(weights).__name__}")
        needs = _needs(weights.values())
        self.placement, self.why = choose(needs, {device: _room(device) for device in needs})
        if placement is not None and needs:
            self.placement, self.why = placement, "asked for"
        self._copies = {}
        # Checked one by one, while the device copies those before.
        for name, tensor, _ in _entries.untied(_entries.entries(weights)):
            _tensors.check_dense(name, tensor)
            self._copies[name] = self._copy(tensor)
        self._done = [self._mark(device) for device in needs]

    @property
    def bytes(self):
        return sum(map(_tensors.bytes_of, self._copies.values()))

    def _copy(self, tensor):
        tensor = tensor.detach()
        return _beside(tensor, self.placement).copy_(tensor, non_blocking=True)

    @staticmethod
    def _mark(device):
        import torch

        return torch.cuda.current_stream(device).record_event()

    def __getitem__(self, name):
        found = self._copies[name]
        for event in self._done:
            event.synchronize()
        return found

    def __iter__(self):
        return iter(self._copies)

    def __len__(self):
        return len(self._copies)
