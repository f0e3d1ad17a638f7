"""What a model takes from a version: which tensors it must have, may have, and where they lie."""

import logging
from collections import namedtuple

from baton.vllm import layout, safefile
from baton.vllm.refusal import Refusal

log = logging.getLogger("baton.engine")

# expected: {name: (safetensors dtype, shape)}.  optional: names in it that a version may lack.
# pieces: where this rank holds them, or None where that is not known (then nothing is read back).
Needs = namedtuple("Needs", "expected optional pieces")

_DTYPE_NAMES = {"torch.bfloat16": "BF16", "torch.float16": "F16", "torch.float32": "F32"}


def _boot_shapes(model_config):
    """What the model's own first load was given, or None: not a folder of safetensors."""
    try:
        return safefile.shapes_of(str(model_config.model))
    except (Refusal, OSError) as error:
        log.warning("the boot checkpoint cannot be read again: %s", error)
        return None


def _pieces(model, boot):
    """The layout, or None if it is unknown or does not fit what the first load accepted."""
    try:
        pieces = layout.plan(model)
    except layout.UnknownLayer as error:
        log.warning("weights will not be read back: %s", error)
        return None
    for name, shape in layout.shapes_of(pieces).items():
        if boot is not None and (name not in boot or tuple(boot[name][1]) != shape):
            log.warning("weights will not be read back: %s is not in the boot checkpoint so", name)
            return None
    return pieces


def of_model(model, model_config, whole_model):
    """Survey a freshly loaded model.  `whole_model`: this rank holds a part of every layer.

    The names, dtypes and shapes are those that the model's own first load accepted.  Where its
    checkpoint is not at hand they follow from its layers."""
    boot = _boot_shapes(model_config)
    pieces = _pieces(model, boot)
    known = layout.shapes_of(pieces) if pieces is not None else {}
    if boot is not None:
        surplus = boot.keys() - known.keys() if pieces is not None and whole_model else ()
        return Needs(boot, frozenset(surplus), pieces)
    if pieces is None or not whole_model:
        return Needs(None, frozenset(), pieces)
    dtype = _DTYPE_NAMES.get(str(model_config.dtype), "unknown")
    return Needs({name: (dtype, shape) for name, shape in known.items()}, frozenset(), pieces)
