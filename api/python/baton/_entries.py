"""What a caller gave publish() as names, tensors and placements; what can be no weights is refused by name.  Imports no library.  Private."""

import collections.abc
import dataclasses
import re

from . import _libbaton, _tensors

# As torch's, Megatron's and DeepSpeed's optimizers name their tensors.
_OPTIMIZER = re.compile(r"(^|\.)(exp_avg|exp_avg_sq|max_exp_avg_sq|momentum_buffer|square_avg|fp32_param|master_params?|param_groups)(\.|$)")
_ADAPTER = re.compile(r"\.lora_(A|B|embedding_A|embedding_B|magnitude_vector)(\.|$)")


@dataclasses.dataclass(frozen=True)
class Shard:
    """This rank's part of a tensor: of ``count`` parts along ``dim``, in order, the one of number ``index``; all parts are of one tensor."""

    dim: int
    index: int
    count: int


def refusal(message, hint=""):
    """InvalidArgument."""
    return _libbaton.exception(3, "INVALID_ARGUMENT", "BAD_FIELD", message, hint)


def _checked(name, value, placement):
    if not isinstance(name, str):
        raise refusal(f"a name must be a text, not {name!r}")
    if isinstance(value, collections.abc.Mapping) or _OPTIMIZER.search(name):
        raise refusal(f"'{name}' is state of an optimizer, or of a whole checkpoint", "publish the model's weights alone: model.state_dict()")
    if _ADAPTER.search(name):
        raise refusal(f"'{name}' is a part of an adapter; engines are given whole weights", "publish(baton.merged(model), partial=True)")
    if placement is not None and not isinstance(placement, Shard):
        raise refusal(f"tensor '{name}': its placement is {placement!r}; it may be a baton.Shard, or None for a whole tensor")
    if isinstance(placement, Shard) and not 0 <= placement.index < placement.count:
        raise refusal(f"tensor '{name}': {placement}: the index is not below the count")
    return name, value, placement


def _raw(given):
    if hasattr(given, "state_dict") and not isinstance(given, collections.abc.Mapping):
        given = given.state_dict()  # A module.
    if not isinstance(given, collections.abc.Mapping):
        for item in given:
            if not isinstance(item, (tuple, list)) or not 2 <= len(item) <= 3:
                raise refusal(f"an iterator gives (name, tensor) or (name, tensor, placement), not {type(item).__name__}")
            yield (*item, None)[:3]
        return
    if {"state", "param_groups"} <= set(given):
        raise refusal("this is an optimizer's state_dict()", "publish the model's weights alone: model.state_dict()")
    for name, value in given.items():
        yield name, value, None


def entries(given):
    """(name, tensor, placement or None) of a module, a mapping, or an iterable of pairs or triples; one after another."""
    seen = set()
    for item in _raw(given):
        name, value, placement = _checked(*item)
        if name in seen:
            raise refusal(f"tensor '{name}' was given twice")
        seen.add(name)
        yield name, value, placement


def is_repeatable(given):
    """False for what can be gone through once only."""
    return not isinstance(given, collections.abc.Iterator)


def untied(items):
    """Without those that are the same memory as one before (tied embeddings)."""
    seen = set()
    for name, value, placement in items:
        key = _tensors.memory_of(value)
        if key is not None and key in seen:
            continue
        seen.add(key)
        yield name, value, placement


def whole(items):
    """(name, tensor) of entries that are no parts."""
    for name, value, placement in items:
        if placement is not None and placement.count > 1:
            raise refusal(f"tensor '{name}': {placement}: its other parts are not here", "publish from all ranks of an initialised torch.distributed job")
        yield name, value


def bytes_of(given, cast):
    """Bytes that a module's or mapping's tensors will take; 0 where only going through would tell."""
    if hasattr(given, "state_dict"):
        given = given.state_dict()
    values = given.values() if isinstance(given, collections.abc.Mapping) else ()
    return sum(_tensors.bytes_of(value, cast) for value in values)
