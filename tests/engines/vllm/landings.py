"""Makes landings for the tests: checkpoints of tests/data with a manifest."""

import json
import os
import shutil

from safetensors.torch import save_file

from baton.vllm import digest, manifest, safefile
from baton.vllm.landing import _tensor as tensor_of

DATA = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "data", "qwen3-tiny")


# Says where tensors lie, as the manifest does itself: no part of a version.
INDEX = "model.safetensors.index.json"


def checkpoint(version):
    return os.path.realpath(os.path.join(DATA, version))


def tensors_of(version):
    """{name: tensor} of a committed checkpoint."""
    found, folder = {}, checkpoint(version)
    for file in sorted(os.listdir(folder)):
        if file.endswith(".safetensors"):
            entries = safefile.read(os.path.join(folder, file))
            found.update({name: tensor_of(name, entry).clone() for name, entry in entries.items()})
    return found


def _entries(folder):
    tensors, files = [], []
    for file in sorted(os.listdir(folder)):
        path = os.path.join(folder, file)
        if file.endswith(".safetensors"):
            for name, entry in safefile.read(path).items():
                made = digest.of_bytes(entry.data)
                tensors.append({"name": name, "dtype": entry.dtype, "shape": list(entry.shape),
                                "atomicSet": "", "digest": made, "file": file})  # fmt: skip
        elif file not in (manifest.NAME, INDEX):
            with open(path, "rb") as source:
                data = source.read()
            files.append({"name": file, "bytes": len(data), "digest": digest.of_bytes(data)})
    by_name = lambda entry: entry["name"].encode()  # noqa: E731
    return sorted(tensors, key=by_name), sorted(files, key=by_name)


def seal(folder):
    """Write the manifest of a checkpoint folder; returns the version's digest."""
    tensors, files = _entries(folder)
    made = digest.of_version(tensors, files)
    found = {"format": 1, "versionDigest": made, "tensors": tensors, "files": files}
    with open(os.path.join(folder, manifest.NAME), "w", encoding="utf-8") as out:
        json.dump(found, out)
    return made


def tie(folder):
    """Make a landing's model one whose output layer is its embedding; returns the new digest."""
    path = os.path.join(folder, "config.json")
    with open(path, encoding="utf-8") as source:
        config = json.load(source)
    with open(path, "w", encoding="utf-8") as out:
        json.dump({**config, "tie_word_embeddings": True}, out)
    os.unlink(os.path.join(folder, manifest.NAME))
    return seal(folder)


def land(root, name, version, change=None):
    """A landing below `root`: (folder, version digest).

    `change`, if given, takes and returns the tensors: the result is sealed honestly, so that it is
    the engine's own checks that must refuse it."""
    folder = os.path.join(root, name)
    shutil.copytree(checkpoint(version), folder)
    if change is not None:
        for file in os.listdir(folder):
            if ".safetensors" in file:
                os.unlink(os.path.join(folder, file))
        tensors = change(tensors_of(version))
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    return folder, seal(folder)
