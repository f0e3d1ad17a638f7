#!/usr/bin/env python3
"""Writes vectors.txt and manifest.json: digests of known bytes, by an implementation that is not ours.

Needs python3-xxhash; where xxhsum is installed, every plain digest is compared with `xxhsum -H2` too.
Run it in this folder after a change of the format; the C tests compare against what is committed.
"""
import json
import pathlib
import shutil
import struct
import subprocess
import sys

import xxhash

CHUNK = 1 << 20
HERE = pathlib.Path(__file__).resolve().parent
PLAIN_SIZES = [0, 1, 3, 4, 8, 9, 16, 17, 128, 129, 240, 241, 256, 1000, 1024, 1025, 4096, 65537,
               CHUNK - 1, CHUNK, CHUNK + 1]
CHUNKED_SIZES = [0, 1, 4096, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 2 * CHUNK + CHUNK // 2,
                 3 * CHUNK - 1]


def pattern(size: int) -> bytes:
    """Bytes that the C tests make likewise: byte i is (7 i + 13 (i >> 8) + 29 (i >> 16)) mod 256."""
    return bytes((7 * i + 13 * (i >> 8) + 29 * (i >> 16)) & 0xFF for i in range(size))


def plain(data: bytes) -> bytes:
    """XXH3-128, seed 0, canonical (big endian)."""
    return xxhash.xxh3_128(data, seed=0).digest()


def chunked(data: bytes) -> bytes:
    """The digest of a tensor or file: over the digests of its 1 MiB chunks."""
    return plain(b"".join(plain(data[at:at + CHUNK]) for at in range(0, len(data), CHUNK)))


def framed(text: str) -> bytes:
    """u32le length, then the bytes."""
    raw = text.encode()
    return struct.pack("<I", len(raw)) + raw


def tensor_entry(tensor: dict) -> bytes:
    """Canonical bytes of a tensor's entry."""
    shape = tensor["shape"]
    return (framed(tensor["name"]) + framed(tensor["dtype"])
            + struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
            + framed(tensor["atomicSet"]) + bytes.fromhex(tensor["digest"]))


def file_entry(file: dict) -> bytes:
    """Canonical bytes of a file's entry."""
    return framed(file["name"]) + struct.pack("<Q", file["bytes"]) + bytes.fromhex(file["digest"])


def make_manifest(tensors: list, files: list) -> dict:
    """baton.manifest.json as an object, sorted and with the version's digest."""
    tensors = sorted(tensors, key=lambda t: t["name"].encode())
    files = sorted(files, key=lambda f: f["name"].encode())
    whole = b"".join(map(tensor_entry, tensors)) + b"".join(map(file_entry, files))
    return {"format": 1, "versionDigest": plain(whole).hex(), "tensors": tensors, "files": files}


LEFT_OUT = (".safetensors", ".bin", ".pt", ".pth", ".ckpt", ".gguf", ".h5", ".msgpack", ".onnx",
            ".md", ".safetensors.index.json")


def read_checkpoint(folder: pathlib.Path) -> dict:
    """The manifest of a checkpoint directory, read without any code of ours in C."""
    tensors, files = [], []
    for path in sorted(folder.iterdir()):
        if path.name.startswith((".", "baton.")) or not path.is_file():
            continue
        raw = path.read_bytes()
        if path.suffix == ".safetensors":
            (length,) = struct.unpack_from("<Q", raw)
            for name, entry in json.loads(raw[8:8 + length]).items():
                if name == "__metadata__":
                    continue
                begin, end = entry["data_offsets"]
                data = raw[8 + length + begin:8 + length + end]
                tensors.append({"name": name, "dtype": entry["dtype"], "shape": entry["shape"],
                                "atomicSet": "", "digest": chunked(data).hex(),
                                "file": path.name})
        elif not path.name.endswith(LEFT_OUT):
            files.append({"name": path.name, "bytes": len(raw), "digest": chunked(raw).hex()})
    return make_manifest(tensors, files)


def check_with_xxhsum(data: bytes, digest: bytes) -> None:
    """A second opinion on plain digests."""
    if shutil.which("xxhsum") is None:
        return
    said = subprocess.run(["xxhsum", "-H2", "-"], input=data, capture_output=True, check=True,
                          timeout=60)
    if said.stdout.split()[0].decode() != digest.hex():
        sys.exit(f"xxhsum -H2 disagrees on {len(data)} bytes: {said.stdout!r}")


def example_manifest() -> dict:
    """A small version with every kind of entry: scalar, empty, atomic set, names that sort oddly."""
    def tensor(name, dtype, shape, size, atomic_set=""):
        return {"name": name, "dtype": dtype, "shape": shape, "atomicSet": atomic_set,
                "digest": chunked(pattern(size)).hex(), "file": "model.safetensors"}
    tensors = [
        tensor("b.weight", "BF16", [128, 64], 128 * 64 * 2),
        tensor("a.scalar", "F32", [], 4),
        tensor("a.empty", "I64", [3, 0], 0),
        tensor("Z.upper", "U8", [5], 5),
        tensor("q.weight", "F8_E4M3", [1024, 1025], 1024 * 1025, "q"),
        tensor("q.weight_scale", "F32", [1024], 4096, "q"),
        tensor("ü.weight", "F4", [4, 2], 4),
    ]
    files = [{"name": name, "bytes": size, "digest": chunked(pattern(size)).hex()}
             for name, size in (("tokenizer.json", 70000), ("config.json", 512), ("empty.txt", 0))]
    return make_manifest(tensors, files)


def main() -> None:
    """Writes both files."""
    lines = ["# Made by make_vectors.py.  <kind> <bytes of the pattern, or folder> <digest>"]
    for size in PLAIN_SIZES:
        data = pattern(size)
        check_with_xxhsum(data, plain(data))
        lines.append(f"plain {size} {plain(data).hex()}")
    lines += [f"chunked {size} {chunked(pattern(size)).hex()}" for size in CHUNKED_SIZES]
    manifest = example_manifest()
    lines.append(f"version manifest.json {manifest['versionDigest']}")
    for folder in sorted((HERE.parent / "qwen3-tiny").glob("v*")):
        digest = read_checkpoint(folder)["versionDigest"]
        lines.append(f"checkpoint qwen3-tiny/{folder.name} {digest}")
    (HERE / "vectors.txt").write_text("\n".join(lines) + "\n")
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"))
    (HERE / "manifest.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
