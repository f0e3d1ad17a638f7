"""Landings that are wrong, each in one way.  Changes are sealed honestly; damage comes after."""

import os
import shutil
import tempfile

import landings
import torch
from safetensors.torch import save_file

VICTIM = "model.layers.1.self_attn.v_proj.weight"


def without(*names):
    return lambda tensors: {k: v for k, v in tensors.items() if k not in names}


def nothing(_tensors):
    return {}


def only_o_proj(tensors):
    return {k: v for k, v in tensors.items() if "o_proj" in k}


def as_dtype(dtype):
    return lambda tensors: {k: v.to(dtype) for k, v in tensors.items()}


def not_numbers(tensors):
    """Every weight NaN: what memory that nobody initialised may hold."""
    return {k: torch.full_like(v, float("nan")) for k, v in tensors.items()}


def with_unknown(tensors):
    return {**tensors, "model.layers.1.self_attn.z_proj.weight": torch.ones(2)}


def with_wrong_shape(tensors):
    return {**tensors, "model.norm.weight": tensors["model.norm.weight"][:-1].clone()}


def land_twice(root):
    """The same tensor in two files."""
    folder, _ = landings.land(root, "twice", "v1")
    tensors = landings.tensors_of("v1")
    save_file({VICTIM: tensors[VICTIM]}, os.path.join(folder, "more.safetensors"))
    return folder, landings.seal(folder)


def _copy(landing, name):
    folder, digest = landing
    made = os.path.join(tempfile.mkdtemp(dir=os.path.dirname(folder)), name)
    shutil.copytree(folder, made)
    return made, digest, os.path.join(made, "model.safetensors")


def land_damaged(landing):
    """One bit of the last tensor turned after sealing."""
    folder, digest, path = _copy(landing, "damaged")
    with open(path, "r+b") as file:
        file.seek(-1, os.SEEK_END)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_END)
        file.write(bytes([byte ^ 1]))
    return folder, digest


def land_truncated(landing):
    folder, digest, path = _copy(landing, "truncated")
    os.truncate(path, os.path.getsize(path) // 2)
    return folder, digest
