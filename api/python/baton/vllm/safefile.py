"""Reads safetensors files strictly, through a memory map.  Standard library alone."""

import json
import mmap
import os
import struct
from collections import namedtuple

from baton.vllm.refusal import LANDING_UNREADABLE, Refusal

BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "U16": 16, "I16": 16,
    "F16": 16, "BF16": 16, "U32": 32, "I32": 32, "F32": 32, "U64": 64, "I64": 64, "F64": 64,
}  # fmt: skip
_MAX_HEADER = 100 << 20

# data is a memoryview of the tensor's bytes; it keeps the map alive.
Entry = namedtuple("Entry", "dtype shape data")


def _no_twins(pairs):
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("a name is listed twice")
    return found


def _header(path, memory):
    """(header object, offset of the data)."""
    if len(memory) < 8:
        raise Refusal(LANDING_UNREADABLE, f"{path} is too short for a safetensors file")
    (length,) = struct.unpack_from("<Q", memory, 0)
    if length > _MAX_HEADER or 8 + length > len(memory):
        raise Refusal(LANDING_UNREADABLE, f"{path}: header of {length} bytes does not fit")
    try:
        found = json.loads(memory[8 : 8 + length], object_pairs_hook=_no_twins)
    except (ValueError, RecursionError) as error:
        raise Refusal(LANDING_UNREADABLE, f"{path}: header: {error}") from error
    if not isinstance(found, dict):
        raise Refusal(LANDING_UNREADABLE, f"{path}: header is not an object")
    found.pop("__metadata__", None)
    return found, 8 + length


def _size_of(dtype, shape):
    count = 1
    for size in shape:
        count *= size
    return count * BITS[dtype] // 8


def _entry(path, name, raw, limit):
    """(dtype, shape, begin, end) of one header entry, checked."""
    try:
        dtype, shape, (begin, end) = raw["dtype"], tuple(raw["shape"]), raw["data_offsets"]
        sound = (
            dtype in BITS
            and all(type(n) is int and n >= 0 for n in (*shape, begin, end))
            and begin <= end <= limit
            and end - begin == _size_of(dtype, shape)
        )
    except (KeyError, TypeError, ValueError):
        sound = False
    if not sound:
        message = f"{path}: {name}: dtype, shape and data_offsets do not fit together"
        raise Refusal(LANDING_UNREADABLE, message, name)
    return dtype, shape, begin, end


def _check_cover(path, spans, limit):
    """The tensors' bytes follow one another and fill the file: no gap, no overlap."""
    place = 0
    for begin, end, name in sorted(spans):
        if begin != place:
            raise Refusal(LANDING_UNREADABLE, f"{path}: gap or overlap before {name}", name)
        place = end
    if place != limit:
        raise Refusal(LANDING_UNREADABLE, f"{path}: {limit - place} bytes belong to no tensor")


def read(path):
    """{name: Entry} of one file.  Refusal: LANDING_UNREADABLE with file and tensor.

    The map is private: what a reader writes into a tensor never reaches the file."""
    try:
        with open(path, "rb") as source:
            size = os.fstat(source.fileno()).st_size
            memory = mmap.mmap(source.fileno(), size, access=mmap.ACCESS_COPY) if size else b""
    except OSError as error:
        raise Refusal(LANDING_UNREADABLE, f"{path}: {error}") from error
    header, start = _header(path, memory)
    data, found, spans = memoryview(memory)[start:], {}, []
    for name, raw in header.items():
        dtype, shape, begin, end = _entry(path, name, raw, len(data))
        found[name] = Entry(dtype, shape, data[begin:end])
        spans.append((begin, end, name))
    _check_cover(path, spans, len(data))
    return found


def shapes_of(folder):
    """{name: (dtype, shape)} of a checkpoint folder's files, or None where it has none."""
    found = {}
    if not os.path.isdir(folder):
        return None
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            entries = read(os.path.join(folder, file))
            found.update({name: (e.dtype, e.shape) for name, e in entries.items()})
    return found or None
