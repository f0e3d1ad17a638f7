"""Which part of which checkpoint tensor each rank of a vLLM model holds, and where.

Written down here from vLLM's layer classes, not taken from their weight loaders: what a loader did
is compared with this.  Known: unquantised dense layers, fused or not, tensor parallel, tied."""

from collections import namedtuple

from vllm.model_executor.layers.linear import (
    ColumnParallelLinear,
    MergedColumnParallelLinear,
    QKVParallelLinear,
    ReplicatedLinear,
    RowParallelLinear,
    UnquantizedLinearMethod,
)
from vllm.model_executor.layers.vocab_parallel_embedding import (
    ParallelLMHead,
    UnquantizedEmbeddingMethod,
    VocabParallelEmbedding,
)

# Part: elements start .. start + length of dimension `dim` of the checkpoint tensor `name`, whose
# whole shape is `shape`.  A piece's parts lie one below the other in the layer's parameter.
Part = namedtuple("Part", "name shape dim start length")
# multiplies: the layer multiplies by this parameter, so it can be probed through its kernel.
# shared: the parameter is an earlier layer's too (tied embeddings).
Piece = namedtuple("Piece", "layer parameter parts multiplies shared")


class UnknownLayer(Exception):
    """A layer that this page does not describe."""


def _fused_names(path, packed):
    """Paths of the checkpoint's modules behind one of the model's."""
    parent, _, last = path.rpartition(".")
    prefix = parent + "." if parent else ""
    return [prefix + name for name in packed.get(last, [last])]


def _columns(layer):
    """Width of a linear layer's whole input."""
    return layer.input_size


def _stacked(names, parameter, heights, slices, columns):
    """Parts of a layer whose rows are split: heights of the whole, (start, length) of ours."""
    parts = []
    for name, height, (start, length) in zip(names, heights, slices, strict=True):
        shape = (height, columns) if parameter == "weight" else (height,)
        parts.append(Part(f"{name}.{parameter}", shape, 0, start, length))
    return parts


def _qkv(layer, names, parameter):
    query, size = layer.num_heads * layer.head_size, layer.head_size
    values = getattr(layer, "v_head_size", size)
    shard = layer.tp_rank // layer.num_kv_head_replicas
    heights = [layer.total_num_heads * size, layer.total_num_kv_heads * size,
               layer.total_num_kv_heads * values]  # fmt: skip
    slices = [(layer.tp_rank * query, query)]
    slices += [(shard * layer.num_kv_heads * s, layer.num_kv_heads * s) for s in (size, values)]
    return _stacked(names, parameter, heights, slices, _columns(layer))


def _rows(layer, names, parameter, heights):
    lengths = [height // layer.tp_size for height in heights]
    slices = [(layer.tp_rank * length, length) for length in lengths]
    return _stacked(names, parameter, heights, slices, _columns(layer))


def _row_parallel(layer, name, parameter):
    if parameter == "bias":
        return [Part(f"{name}.bias", (layer.output_size,), 0, 0, layer.output_size)]
    length = layer.input_size_per_partition
    shape = (layer.output_size, layer.input_size)
    return [Part(f"{name}.weight", shape, 1, layer.tp_rank * length, length)]


def _vocabulary(layer, name, parameter):
    if parameter != "weight" or layer.num_added_embeddings:
        raise UnknownLayer(f"{name}.{parameter} of an embedding with added tokens")
    first = layer.shard_indices.org_vocab_start_index
    length = layer.shard_indices.org_vocab_end_index - first
    shape = (layer.org_vocab_size, layer.embedding_dim)
    return [Part(f"{name}.weight", shape, 0, first, length)]


def _linear(layer, path, parameter, packed):
    names = _fused_names(path, packed)
    if isinstance(layer, QKVParallelLinear):
        return _qkv(layer, names, parameter)
    if isinstance(layer, MergedColumnParallelLinear):
        return _rows(layer, names, parameter, layer.output_sizes)
    if isinstance(layer, ColumnParallelLinear):
        return _rows(layer, names, parameter, [layer.output_size])
    if isinstance(layer, RowParallelLinear):
        return _row_parallel(layer, path, parameter)
    heights = [layer.output_size]
    return _stacked(names, parameter, heights, [(0, layer.output_size)], _columns(layer))


_LINEAR = (ColumnParallelLinear, RowParallelLinear, ReplicatedLinear)


def _parts(layer, path, parameter, packed):
    if isinstance(layer, _LINEAR):
        if type(layer.quant_method) is not UnquantizedLinearMethod:
            raise UnknownLayer(f"{path} is quantised")
        return _linear(layer, path, parameter, packed)
    if isinstance(layer, VocabParallelEmbedding):
        if type(layer.quant_method) is not UnquantizedEmbeddingMethod:
            raise UnknownLayer(f"{path} is quantised")
        return _vocabulary(layer, path, parameter)
    if hasattr(layer, "quant_method"):
        raise UnknownLayer(f"{path} is a {type(layer).__name__}")
    shape = tuple(layer._parameters[parameter].shape)
    if not shape:
        raise UnknownLayer(f"{path}.{parameter} is a scalar")
    return [Part(f"{path}.{parameter}", shape, 0, 0, shape[0])]


def _owned(model):
    """(path, layer, parameter name, parameter) of everything that the model holds."""
    for path, layer in model.named_modules():
        for name, parameter in layer._parameters.items():
            if parameter is not None:
                yield path, layer, name, parameter


def plan(model):
    """The pieces of a freshly loaded model.  UnknownLayer: it holds what is not described here.

    A parameter that two layers share (tied embeddings) goes by the first layer's name in both."""
    packed = getattr(model, "packed_modules_mapping", {})
    pieces, parts_of = [], {}
    for path, layer, name, parameter in _owned(model):
        key = id(parameter) if parameter.numel() else None
        shared = key in parts_of
        parts = parts_of[key] if shared else _parts(layer, path, name, packed)
        if key is not None:
            parts_of[key] = parts
        multiplies = name == "weight" and isinstance(layer, (*_LINEAR, ParallelLMHead))
        pieces.append(Piece(layer, name, parts, multiplies, shared))
    return pieces


def shapes_of(pieces):
    """{checkpoint name: whole shape}."""
    return {part.name: tuple(part.shape) for piece in pieces for part in piece.parts}
