"""A landing's manifest: read strictly, checked against its digest and a model's needs."""

import json
import os
import re

from baton.vllm import digest
from baton.vllm.refusal import (
    BAD_REQUEST,
    DIGEST_MISMATCH,
    DTYPE_MISMATCH,
    LANDING_UNREADABLE,
    MISSING_TENSOR,
    SHAPE_MISMATCH,
    UNEXPECTED_TENSOR,
    Refusal,
)

NAME = "baton.manifest.json"
_MAX_BYTES = 64 << 20
_HEX32 = re.compile(r"[0-9a-f]{32}")
_TENSOR_FIELDS = {"name": str, "dtype": str, "shape": list, "atomicSet": str, "digest": str,
                  "file": str}  # fmt: skip
_FILE_FIELDS = {"name": str, "bytes": int, "digest": str}


def _unreadable(message):
    return Refusal(LANDING_UNREADABLE, message)


def check_digest_text(text, field):
    """Refusal unless `text` is 32 hexadecimal digits."""
    if not isinstance(text, str) or not _HEX32.fullmatch(text):
        raise Refusal(BAD_REQUEST, f"{field} must be 32 hexadecimal digits, got {text!r}")


def _check_entry(entry, fields, where):
    if not isinstance(entry, dict):
        raise _unreadable(f"{NAME}: {where} is not an object")
    for field, kind in fields.items():
        if type(entry.get(field)) is not kind:
            raise _unreadable(f"{NAME}: {where}.{field} is missing or not a {kind.__name__}")
    if not _HEX32.fullmatch(entry["digest"]):
        raise _unreadable(f"{NAME}: {where}.digest is not 32 hexadecimal digits")


def _check_tensor(entry, where):
    _check_entry(entry, _TENSOR_FIELDS, where)
    if not all(type(size) is int and 0 <= size < 2**63 for size in entry["shape"]):
        raise _unreadable(f"{NAME}: {where}.shape has a size that is no unsigned integer")
    file = entry["file"]
    if not file or file != os.path.basename(file) or file in (".", ".."):
        raise _unreadable(f"{NAME}: {where}.file {file!r} is not a plain file name")


def _check_file(entry, where):
    _check_entry(entry, _FILE_FIELDS, where)
    if not 0 <= entry["bytes"] < 2**63:
        raise _unreadable(f"{NAME}: {where}.bytes is not an unsigned integer")


def _check_order(entries, where):
    """Sorted bytewise, and so none twice."""
    for before, after in zip(entries, entries[1:]):
        if before["name"] == after["name"]:
            raise _unreadable(f"{NAME}: {where} lists {after['name']!r} twice")
        if before["name"].encode() > after["name"].encode():
            raise _unreadable(f"{NAME}: {where} is out of order at {after['name']!r}")


def parse(text):
    """A manifest as a dict.  Refusal: LANDING_UNREADABLE with the field."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _unreadable(f"{NAME} is not JSON: {error}") from error
    if not isinstance(found, dict) or found.get("format") != 1:
        raise _unreadable(f"{NAME}: format is not 1; this plug-in reads no other")
    for field, check in (("tensors", _check_tensor), ("files", _check_file)):
        if type(found.get(field)) is not list:
            raise _unreadable(f"{NAME}: {field} is missing or not a list")
        for index, entry in enumerate(found[field]):
            check(entry, f"{field}[{index}]")
        _check_order(found[field], field)
    return found


def check_version(found, wanted):
    """Refusal unless the entries make the version digest that the caller named."""
    made = digest.of_version(found["tensors"], found["files"])
    if made != wanted:
        raise Refusal(DIGEST_MISMATCH, f"{NAME} makes version {made}, the call names {wanted}")
    if found.get("versionDigest") != made:
        raise Refusal(DIGEST_MISMATCH, f"{NAME}: versionDigest is not that of its entries, {made}")


def read(landing, wanted):
    """The manifest of a landing, proved to be that of the version `wanted`."""
    path = os.path.join(landing, NAME)
    try:
        if os.stat(path).st_size > _MAX_BYTES:
            raise _unreadable(f"{path} is larger than {_MAX_BYTES} bytes")
        with open(path, encoding="utf-8") as source:
            text = source.read()
    except (OSError, UnicodeDecodeError) as error:
        raise _unreadable(f"{path}: {error}") from error
    found = parse(text)
    check_version(found, wanted)
    return found


def check_complete(found, expected, optional=frozenset()):
    """Compare with {name: (dtype, shape)}, the tensors that the model takes.

    `optional` are names among them that a version may lack.
    Refusal: the first tensor that is missing, unknown, or of another dtype or shape."""
    listed = {entry["name"]: entry for entry in found["tensors"]}
    for name in sorted(expected):
        if name not in listed and name not in optional:
            message = f"the version has no tensor {name}, which this model needs"
            raise Refusal(MISSING_TENSOR, message, name)
    for name, entry in listed.items():
        if name not in expected:
            raise Refusal(UNEXPECTED_TENSOR, f"this model has no tensor {name}", name)
        dtype, shape = expected[name]
        if entry["dtype"] != dtype:
            message = f"{name} is {entry['dtype']}, this model takes {dtype}"
            raise Refusal(DTYPE_MISMATCH, message, name)
        if tuple(entry["shape"]) != tuple(shape):
            message = f"{name} is {entry['shape']}, this model takes {list(shape)}"
            raise Refusal(SHAPE_MISMATCH, message, name)
