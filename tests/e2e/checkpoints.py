"""Checkpoints for the tests, whole and damaged. Python's standard library only."""

import json
import shutil
import struct

import fleet


def read_file(path):
    """Header and data of one safetensors file."""
    raw = path.read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    return json.loads(raw[8 : 8 + size]), raw[8 + size :]


def write_file(path, header, data):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def tensors_of(directory):
    """{name: (dtype, shape, bytes)} of all files."""
    found = {}
    for path in sorted(directory.glob("*.safetensors")):
        header, data = read_file(path)
        header.pop("__metadata__", None)
        found |= {name: (t["dtype"], t["shape"], data[slice(*t["data_offsets"])]) for name, t in header.items()}
    return found


def write_tensors(directory, tensors):
    header, data = {}, b""
    for name, (dtype, shape, raw) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    directory.mkdir(parents=True, exist_ok=True)
    write_file(directory / "model.safetensors", header, data)


def copy_of(version, target):
    shutil.copytree(fleet.DATA / version, target)
    return target


def other_model(target):
    """A sound checkpoint of a model with a wider MLP: no engine of ours can take it."""
    copy_of("v1", target)
    config = json.loads((target / "config.json").read_text())
    wide = config["intermediate_size"] * 2
    config["intermediate_size"] = wide
    (target / "config.json").write_text(json.dumps(config))
    tensors = {}
    for name, (dtype, shape, raw) in tensors_of(target).items():
        if ".mlp." in name:
            shape, raw = [wide if n * 2 == wide else n for n in shape], raw * 2
        tensors[name] = (dtype, shape, raw)
    write_tensors(target, tensors)
    return target


def variant(target, salt):
    """v1 with other bytes in one tensor: small, sound, and a version of its own."""
    copy_of("v1", target)
    tensors = tensors_of(target)
    dtype, shape, raw = tensors["model.norm.weight"]
    tensors["model.norm.weight"] = (dtype, shape, bytes([salt % 256]) + raw[1:])
    write_tensors(target, tensors)
    return target
