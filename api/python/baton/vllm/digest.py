"""Digests of tensors, files and versions, as transport/model makes them (XXH3-128, seed 0)."""

import struct

import xxhash

CHUNK = 1 << 20


def of_bytes(data):
    """The digest of a tensor's or file's bytes: over the digests of its 1 MiB chunks, in order."""
    view = memoryview(data).cast("B")
    whole = xxhash.xxh3_128()
    for start in range(0, len(view), CHUNK):
        whole.update(xxhash.xxh3_128_digest(view[start : start + CHUNK]))
    return whole.hexdigest()


def _framed(text):
    data = text.encode()
    return struct.pack("<I", len(data)) + data


def of_version(tensors, files):
    """The version's digest, from manifest entries (dicts) that are sorted by name already."""
    whole = xxhash.xxh3_128()
    for tensor in tensors:
        shape = tensor["shape"]
        whole.update(_framed(tensor["name"]) + _framed(tensor["dtype"]))
        whole.update(struct.pack(f"<I{len(shape)}Q", len(shape), *shape))
        whole.update(_framed(tensor["atomicSet"]) + bytes.fromhex(tensor["digest"]))
    for file in files:
        whole.update(_framed(file["name"]) + struct.pack("<Q", file["bytes"]))
        whole.update(bytes.fromhex(file["digest"]))
    return whole.hexdigest()
