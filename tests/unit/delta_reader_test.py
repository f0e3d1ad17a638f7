#!/usr/bin/env python3
"""Deltas of ours read, and deltas for us written, by code that shares nothing with the product.

usage: delta_reader_test.py BATONCTL
Needs the commands zstd and xxhsum, or the Python packages zstandard and xxhash; skips, saying so, without them.
"""

import json
import pathlib
import random
import shutil
import struct
import subprocess
import sys
import tempfile
import zlib

DATA = pathlib.Path(__file__).resolve().parent.parent / "data" / "qwen3-tiny"
INDEX = "model.safetensors.index.json"
CTL = ""


def unpack(frame):
    try:
        import zstandard

        return zstandard.ZstdDecompressor().decompress(frame)
    except ImportError:
        return subprocess.run(["zstd", "-q", "-d", "-c"], input=frame, capture_output=True, check=True).stdout


def pack(payload, scratch):
    try:
        import zstandard

        return zstandard.ZstdCompressor(level=1).compress(payload)
    except ImportError:
        path = scratch / "payload"  # From a file: only then is the size in the header.
        path.write_bytes(payload)
        return subprocess.run(["zstd", "-q", "-1", "--no-check", "-c", path], capture_output=True, check=True).stdout


def xxh3_128(data, scratch):
    try:
        import xxhash

        return xxhash.xxh3_128_hexdigest(data)
    except ImportError:
        path = scratch / "hashed"
        path.write_bytes(data)
        return subprocess.run(["xxhsum", "-H2", path], capture_output=True, check=True, text=True).stdout.split()[0]


def checksum(kind, data, scratch):
    """The checksum as text; None where nothing here can compute it."""
    if kind == "adler32":
        return f"{zlib.adler32(data):08x}"
    if kind == "xxh3-128":
        return xxh3_128(data, scratch)
    try:
        import blake3

        return blake3.blake3(data).hexdigest()
    except ImportError:
        return None


def read_safetensors(path):
    """Header without and with its metadata, and name -> bytes."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    assert (8 + size) % 8 == 0, f"{path}: the header is not padded to 8 bytes"
    header = json.loads(raw[8:8 + size])
    metadata = header.pop("__metadata__", {})
    data, end = {}, 0
    for name, tensor in header.items():
        begin, stop = tensor["data_offsets"]
        assert begin == end, f"{path}: {name} does not begin where the one before ends"
        data[name] = raw[8 + size + begin:8 + size + stop]
        end = stop
    assert 8 + size + end == len(raw), f"{path}: trailing bytes"
    return header, metadata, data


def read_checkpoint(path):
    tensors = {}
    for shard in path.glob("*.safetensors"):
        tensors.update(read_tensors(shard))
    return tensors


def read_tensors(path):
    """As above, for headers whose order is not that of the data."""
    raw = path.read_bytes()
    size = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8:8 + size])
    header.pop("__metadata__", None)
    return {n: raw[8 + size + t["data_offsets"][0]:8 + size + t["data_offsets"][1]] for n, t in header.items()}


def xor(a, b):
    return (int.from_bytes(a, "little") ^ int.from_bytes(b, "little")).to_bytes(len(a), "little")


def apply(encoding, old, payload):
    if encoding == "xor":
        assert len(payload) == len(old)
        return xor(old, payload)
    new = bytearray(old)
    count = struct.unpack("<I", payload[:4])[0]
    assert len(payload) == 4 + 5 * count
    positions = struct.unpack(f"<{count}I", payload[4:4 + 4 * count])
    assert list(positions) == sorted(set(positions)), "positions do not ascend"
    for position, value in zip(positions, payload[4 + 4 * count:]):
        new[position] = value
    return bytes(new)


def diff(encoding, old, new):
    if encoding == "xor":
        return xor(old, new)
    at = [i for i in range(len(old)) if old[i] != new[i]]
    return struct.pack("<I", len(at)) + struct.pack(f"<{len(at)}I", *at) + bytes(new[i] for i in at)


def ctl(*words):
    done = subprocess.run([CTL, "delta", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def check_index(path):
    """The index, which must be what json.dumps makes of it, byte for byte."""
    text = (path / INDEX).read_bytes()
    index = json.loads(text)
    assert json.dumps(index).encode() == text, "the index is not spelt as json.dumps spells it"
    assert list(index) == ["metadata", "weight_map"]
    assert list(index["metadata"]) == ["version", "base_version", "delta_encoding", "compression_format", "checksum_format"]
    return index


def check_shard(path, index, tensors, scratch):
    """Applies one shard to 'tensors'; the names that it held."""
    metadata = index["metadata"]
    header, sums, frames = read_safetensors(path)
    names = list(header)
    assert names == sorted(names, key=str.encode) and set(names) == set(sums)
    for name, frame in frames.items():
        assert header[name] == {"dtype": "U8", "shape": [len(frame)], "data_offsets": header[name]["data_offsets"]}
        assert index["weight_map"][name] == path.name
        tensors[name] = apply(metadata["delta_encoding"], tensors[name], unpack(frame))
        wanted = checksum(metadata["checksum_format"], tensors[name], scratch)
        assert wanted in (None, sums[name]), f"{name}: {sums[name]} instead of {wanted}"
    return names


def test_reads_ours(encoding, kind, scratch):
    ctl("encode", DATA / "v2", DATA / "v3", "--publication", scratch, "--version", "1", "--encoding", encoding, "--checksum", kind)
    path = scratch / "weight_v000001"
    index = check_index(path)
    tensors, seen = read_checkpoint(DATA / "v2"), []
    for shard in sorted(path.glob("*.safetensors")):
        seen += check_shard(shard, index, tensors, scratch)
    assert sorted(seen) == sorted(index["weight_map"])
    assert tensors == read_checkpoint(DATA / "v3")
    assert {p.name for p in path.iterdir()} == {INDEX, "baton.delta.json"} | set(index["weight_map"].values())


def write_shard(path, encoding, kind, old, new, scratch):
    frames = {n: pack(diff(encoding, old[n], new[n]), scratch) for n in sorted(new, key=str.encode)}
    sums = [(n, checksum(kind, new[n], scratch)) for n in frames]
    random.shuffle(sums)  # The format's other writers have them in the order of a hash map.
    header, end = {"__metadata__": dict(sums)}, 0
    for name, frame in frames.items():
        header[name] = {"dtype": "U8", "shape": [len(frame)], "data_offsets": [end, end + len(frame)]}
        end += len(frame)
    text = json.dumps(header, ensure_ascii=False, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(frames.values()))


def test_writes_for_ours(encoding, kind, scratch):
    old, new = read_checkpoint(DATA / "v2"), read_checkpoint(DATA / "v3")
    changed = [n for n in new if old[n] != new[n]]
    path = scratch / "weight_v000001"
    path.mkdir()
    weight_map = {}
    for i, names in enumerate((changed[::2], changed[1::2])):
        shard = f"model-{i:05d}-of-00002.safetensors"
        write_shard(path / shard, encoding, kind, old, {n: new[n] for n in names}, scratch)
        weight_map.update(dict.fromkeys(names, shard))
    metadata = {"version": "000001", "base_version": "000000", "delta_encoding": encoding, "compression_format": "zstd", "checksum_format": kind}
    (path / INDEX).write_text(json.dumps({"metadata": metadata, "weight_map": weight_map}))
    out = scratch / "out"
    said = ctl("apply", DATA / "v2", out, "--publication", scratch, "--version", "1")
    assert "the publisher wrote none" in said, said
    assert read_checkpoint(out) == new
    assert json.loads((out / ".weight_sync/state.json").read_text()) == {"version": "000001"}


def refused(code, message, *words):
    done = subprocess.run([CTL, "delta", *map(str, words)], capture_output=True, text=True, check=False)
    assert done.returncode == code and message in done.stderr, f"{words}: {done.returncode}, {done.stderr}"


def test_exit_codes(scratch):
    """Wrong words are 2, what is refused is 1 and says why."""
    where = ("--publication", scratch, "--version", "1")
    refused(2, "delta does: encode BASE NEXT", "invent", scratch)
    refused(2, "delta encode takes BASE and NEXT", "encode", DATA / "v2", *where)
    refused(2, "delta needs --publication DIR", "verify", DATA / "v2")
    refused(2, "--encoding takes xor or overwrite", "encode", DATA / "v2", DATA / "v3", *where, "--encoding", "diff")
    refused(2, "--checksum takes", "encode", DATA / "v2", DATA / "v3", *where, "--checksum", "md5")
    refused(1, "(NOT_FOUND", "verify", DATA / "v2", *where)
    made = json.loads(ctl("encode", DATA / "v2", DATA / "v3", *where, "-o", "json"))
    checked = json.loads(ctl("verify", DATA / "v2", *where, "-o", "json"))
    assert checked["digestChecked"] and checked["digest"] == made["digest"] and checked["changedTensors"] == made["changedTensors"]
    refused(1, "(ALREADY_EXISTS", "encode", DATA / "v2", DATA / "v3", *where)
    refused(1, "(DATA_LOSS, DIGEST_MISMATCH)\nhint: the base is not", "apply", DATA / "v1", scratch / "out", *where)
    assert not (scratch / "out").exists()


def main():
    global CTL
    CTL = sys.argv[1]
    for command, package in (("zstd", "zstandard"), ("xxhsum", "xxhash")):
        try:
            __import__(package)
        except ImportError:
            if shutil.which(command) is None:
                print(f"skip - deltas read by other code: neither the command {command} nor the Python package {package} is installed")
                return
    with tempfile.TemporaryDirectory() as scratch:
        test_exit_codes(pathlib.Path(scratch))
        print("ok - exit codes")
    for test in (test_reads_ours, test_writes_for_ours):
        for encoding in ("xor", "overwrite"):
            for kind in ("xxh3-128", "adler32", "blake3"):
                with tempfile.TemporaryDirectory() as scratch:
                    if test is test_writes_for_ours and checksum(kind, b"", pathlib.Path(scratch)) is None:
                        continue
                    test(encoding, kind, pathlib.Path(scratch))
                    print(f"ok - {test.__name__[5:]} {encoding} {kind}")


main()
