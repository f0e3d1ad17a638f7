"""Stands in for SGLang's package of compiled kernels, on a CPU for which there is none.

SGLang's modules bind names of that package when they are imported, whatever they will use.  On a CPU without AMX
they then go their plain torch ways, so no such name is ever called; if one were, it must not answer: it raises.

Torch's build for CUDA also raises in ``torch.cuda.synchronize`` where there is no device.  SGLang calls that after it
released memory, whatever its device is.  Where nothing was started there is nothing to wait for.
"""

import torch


class _Absent:
    """A kernel by name.  It can be bound, decorated, put into tables; not called."""

    def __init__(self, name):
        self.__name__ = self.__qualname__ = name

    def __call__(self, *_args, **_kwargs):
        raise NotImplementedError(f"kernel {self.__name__} was called; this machine has none (tests/engines/sglang)")


def __getattr__(name):
    if name.startswith("__"):
        raise AttributeError(name)
    return _Absent(name)


def _nothing_to_wait_for(device=None):
    del device


if not torch.cuda.is_available():
    torch.cuda.synchronize = _nothing_to_wait_for
