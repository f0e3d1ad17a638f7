"""Tensors of torch on a GPU, fetched through pinned memory.

From memory that is not pinned the driver copies at a fifth of the link's speed, and the caller waits.  torch is imported
by whoever has such tensors already.  Private."""


def is_there(value):
    """Whether a value is a tensor of torch on a GPU."""
    return hasattr(value, "data_ptr") and hasattr(value, "element_size") and value.device.type == "cuda"


class Fetch:
    """A copy to pinned memory, begun when this is made."""

    _streams = {}

    def __init__(self, tensor):
        import torch

        device = tensor.device
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        stream = self._streams[device]
        self.target = torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True)
        stream.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(stream):
            self.target.copy_(tensor, non_blocking=True)
            self._done = stream.record_event()
        tensor.record_stream(stream)

    def wait(self):
        """The copy."""
        self._done.synchronize()
        return self.target


def fetch(tensor):
    """A Fetch, or None where one is not to be had: not on a GPU, with gaps, no memory that can be pinned."""
    if not is_there(tensor) or not tensor.is_contiguous() or tensor.numel() == 0:
        return None
    try:
        return Fetch(tensor)
    except RuntimeError:
        return None
