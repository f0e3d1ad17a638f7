"""A landed version as tensors: opened, checked against its manifest, every byte verified."""

import os

import torch

from baton.vllm import digest, manifest, safefile
from baton.vllm.refusal import BAD_REQUEST, DIGEST_MISMATCH, LANDING_UNREADABLE, Refusal

_DTYPES = {
    "BOOL": torch.bool, "U8": torch.uint8, "I8": torch.int8, "I16": torch.int16,
    "I32": torch.int32, "I64": torch.int64, "F16": torch.float16, "BF16": torch.bfloat16,
    "F32": torch.float32, "F64": torch.float64, "F8_E4M3": torch.float8_e4m3fn,
    "F8_E5M2": torch.float8_e5m2,
}  # fmt: skip


def _tensor(name, entry):
    """A view of the mapped bytes; a copy where they are not aligned."""
    dtype = _DTYPES.get(entry.dtype)
    if dtype is None:
        raise Refusal(LANDING_UNREADABLE, f"{name}: dtype {entry.dtype} is not supported", name)
    if len(entry.data) == 0:
        return torch.empty(entry.shape, dtype=dtype)
    raw = torch.frombuffer(entry.data, dtype=torch.uint8)
    if raw.data_ptr() % dtype.itemsize:
        raw = raw.clone()
    return raw.view(dtype).reshape(entry.shape)


def _check_against_files(landing, found, files):
    """The manifest and the files' headers tell the same story."""
    listed = {entry["name"] for entry in found["tensors"]}
    for file, entries in files.items():
        for name in entries:
            if name not in listed:
                message = f"{file} in {landing} holds {name}, which the manifest does not list"
                raise Refusal(LANDING_UNREADABLE, message, name)
    for entry in found["tensors"]:
        name, held = entry["name"], files[entry["file"]].get(entry["name"])
        if held is None:
            message = f"{entry['file']} in {landing} does not hold {name}"
            raise Refusal(LANDING_UNREADABLE, message, name)
        if (held.dtype, list(held.shape)) != (entry["dtype"], entry["shape"]):
            found_as = f"{held.dtype} {list(held.shape)}"
            message = f"{entry['file']} holds {name} as {found_as}, not as listed"
            raise Refusal(LANDING_UNREADABLE, message, name)


class Landing:
    """One verified version.  Holds maps of its files, so that it outlives their deletion."""

    def __init__(self, folder, version_digest, needs):
        if not isinstance(folder, str) or not os.path.isabs(folder):
            raise Refusal(BAD_REQUEST, f"landing must be an absolute path, got {folder!r}")
        manifest.check_digest_text(version_digest, "version_digest")
        self.version_digest = version_digest
        found = manifest.read(folder, version_digest)
        manifest.check_complete(found, needs.expected, needs.optional)
        names = sorted({entry["file"] for entry in found["tensors"]})
        files = {file: safefile.read(os.path.join(folder, file)) for file in names}
        _check_against_files(folder, found, files)
        self.tensors = {}
        for entry in found["tensors"]:
            self._verify(entry, files[entry["file"]][entry["name"]])

    def _verify(self, entry, held):
        name, made = entry["name"], digest.of_bytes(held.data)
        if made != entry["digest"]:
            message = f"{name}: bytes digest to {made}, the manifest says {entry['digest']}"
            raise Refusal(DIGEST_MISMATCH, message, name)
        self.tensors[name] = _tensor(name, held)

    def items(self):
        """(name, tensor), layer by layer: engines load in that order with the least memory."""
        return [(name, self.tensors[name]) for name in sorted(self.tensors, key=_by_layer)]


def _by_layer(name):
    """Sorts numbers in a name as numbers: layer 2 before layer 10."""
    return [(0, int(p), "") if p.isdigit() else (1, 0, p) for p in name.split(".")]
