"""Manifests, digests, safetensors files and fences: what is refused, and with which code."""

import copy
import json
import os
import struct
import tempfile
import unittest

import landings
from baton.vllm import digest, fence, manifest, refusal, safefile
from baton.vllm.refusal import Refusal


class Refusing(unittest.TestCase):
    def refused(self, code, call, *args, text=""):
        """The call ends in a Refusal with this code, and its message holds the text."""
        with self.assertRaises(Refusal) as caught:
            call(*args)
        self.assertEqual(caught.exception.code, code, str(caught.exception))
        self.assertIn(text, str(caught.exception))


class DigestTest(unittest.TestCase):
    def test_nothing(self):
        self.assertEqual(digest.of_bytes(b""), "99aa06d3014798d86001c324468d497f")

    def test_chunks_of_one_mebibyte(self):
        data = bytes(range(256)) * 4096 + b"x"
        first, second = (digest.xxhash.xxh3_128_digest(part) for part in (data[:-1], b"x"))
        self.assertEqual(digest.of_bytes(data), digest.xxhash.xxh3_128_hexdigest(first + second))

    def test_version_depends_on_every_field(self):
        tensor = {"name": "a", "dtype": "F32", "shape": [1], "atomicSet": "", "digest": "0" * 32}
        file = {"name": "c", "bytes": 1, "digest": "0" * 32}
        made = {digest.of_version([tensor], [file]), digest.of_version([tensor], [])}
        for field, value in (("name", "b"), ("dtype", "I32"), ("shape", [1, 1]),
                             ("atomicSet", "s"), ("digest", "1" * 32)):  # fmt: skip
            made.add(digest.of_version([{**tensor, field: value}], [file]))
        for field, value in (("name", "d"), ("bytes", 2), ("digest", "1" * 32)):
            made.add(digest.of_version([tensor], [{**file, field: value}]))
        self.assertEqual(len(made), 10)


class ManifestTest(Refusing):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.folder.cleanup)
        cls.path, cls.digest = landings.land(cls.folder.name, "v2", "v2")
        cls.good = manifest.read(cls.path, cls.digest)
        cls.shapes = safefile.shapes_of(cls.path)

    def changed(self, change):
        found = copy.deepcopy(self.good)
        change(found)
        return json.dumps(found)

    def test_good(self):
        manifest.check_complete(self.good, self.shapes)
        self.assertEqual(len(self.good["tensors"]), 47)

    def test_same_digests_as_the_transport_makes(self):
        vectors = os.path.join(landings.DATA, "..", "digest", "vectors.txt")
        with open(vectors, encoding="ascii") as source:
            lines = [line.split() for line in source if line.startswith("checkpoint ")]
        self.assertEqual(len(lines), 3)
        for _, folder, made in lines:
            version = os.path.basename(folder)
            found = landings.land(self.folder.name, "golden-" + version, version)[1]
            self.assertEqual(found, made, folder)

    def test_shape_of_the_json(self):
        unreadable = refusal.LANDING_UNREADABLE
        self.refused(unreadable, manifest.parse, "{", text="not JSON")
        self.refused(unreadable, manifest.parse, "[" * 200000, text="not JSON")
        self.refused(unreadable, manifest.parse, "[]", text="format")
        for path, value, text in (
            ("format", 2, "format"), ("tensors", {}, "tensors"), ("files", None, "files"),
        ):  # fmt: skip
            bad = self.changed(lambda found: found.update({path: value}))
            self.refused(unreadable, manifest.parse, bad, text=text)

    def test_fields_of_an_entry(self):
        for field, value in (("name", 1), ("dtype", None), ("shape", "x"), ("shape", [-1]),
                             ("shape", [True]), ("digest", "0"), ("file", "../a"), ("file", ""),
                             ("file", "/a"), ("atomicSet", 0)):  # fmt: skip
            bad = self.changed(lambda found: found["tensors"][3].update({field: value}))
            where = f"tensors[3].{field}"
            self.refused(refusal.LANDING_UNREADABLE, manifest.parse, bad, text=where)

    def test_order_and_twins(self):
        bad = self.changed(lambda found: found["tensors"].insert(1, found["tensors"][0]))
        self.refused(refusal.LANDING_UNREADABLE, manifest.parse, bad, text="twice")
        bad = self.changed(lambda found: found["tensors"].reverse())
        self.refused(refusal.LANDING_UNREADABLE, manifest.parse, bad, text="out of order")

    def test_version_digest(self):
        mismatch = refusal.DIGEST_MISMATCH
        self.refused(mismatch, manifest.read, self.path, "0" * 32)
        found = copy.deepcopy(self.good)
        found["tensors"][0]["digest"] = "0" * 32
        self.refused(mismatch, manifest.check_version, found, self.digest)
        found = {**self.good, "versionDigest": "0" * 32}
        self.refused(mismatch, manifest.check_version, found, self.digest)

    def test_completeness(self):
        name, check = self.good["tensors"][5]["name"], manifest.check_complete
        found = copy.deepcopy(self.good)
        del found["tensors"][5]
        self.refused(refusal.MISSING_TENSOR, check, found, self.shapes, text=name)
        check(found, self.shapes, {name})
        fewer = {key: value for key, value in self.shapes.items() if key != name}
        self.refused(refusal.UNEXPECTED_TENSOR, check, self.good, fewer, text=name)
        other = {**self.shapes, name: ("F32", self.shapes[name][1])}
        self.refused(refusal.DTYPE_MISMATCH, check, self.good, other, text=name)
        other = {**self.shapes, name: ("BF16", (1, 2))}
        self.refused(refusal.SHAPE_MISMATCH, check, self.good, other, text=name)


class SafefileTest(Refusing):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.path = os.path.join(self.folder.name, "a.safetensors")

    def write(self, header, data):
        text = header if isinstance(header, bytes) else json.dumps(header).encode()
        with open(self.path, "wb") as out:
            out.write(struct.pack("<Q", len(text)) + text + data)

    def test_reads(self):
        self.write({"a": {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]},
                    "__metadata__": {"format": "pt"}}, b"xy")  # fmt: skip
        entry = safefile.read(self.path)["a"]
        self.assertEqual((entry.dtype, entry.shape, bytes(entry.data)), ("U8", (2,), b"xy"))

    def test_refuses(self):
        for begin, end, shape, dtype, data in (
            (0, 3, [2], "U8", b"xyz"), (1, 3, [2], "U8", b"xyz"), (0, 2, [2], "U8", b"xyz"),
            (0, 4, [4], "U8", b"xyz"), (2, 0, [2], "U8", b"xy"), (0, 2, [-2], "U8", b"xy"),
            (0, 2, [2], "X8", b"xy"), (0, 2, [2**70], "U8", b"xy"),
        ):  # fmt: skip
            entry = {"dtype": dtype, "shape": shape, "data_offsets": [begin, end]}
            self.write({"a": entry}, data)
            self.refused(refusal.LANDING_UNREADABLE, safefile.read, self.path)

    def test_refuses_overlap_twins_and_torn_heads(self):
        one = {"dtype": "U8", "shape": [2], "data_offsets": [0, 2]}
        self.write({"a": one, "b": one}, b"xy")
        self.refused(refusal.LANDING_UNREADABLE, safefile.read, self.path, text="overlap")
        twin = json.dumps({"a": one})[1:-1]
        self.write(("{" + twin + "," + twin + "}").encode(), b"xy")
        self.refused(refusal.LANDING_UNREADABLE, safefile.read, self.path, text="twice")
        for raw in (b"", b"1234567", struct.pack("<Q", 2**60) + b"{}"):
            with open(self.path, "wb") as out:
                out.write(raw)
            self.refused(refusal.LANDING_UNREADABLE, safefile.read, self.path)


class FenceTest(Refusing):
    def test_order(self):
        fences = fence.Fences()
        fences.admit([1, 2, 3, 4, 5])
        fences.admit([1, 2, 3, 4, 5])
        for lower in ([1, 2, 3, 4, 4], [1, 2, 3, 3, 9], [1, 2, 2, 9, 9], [1, 1, 9, 9, 9],
                      [0, 9, 9, 9, 9]):  # fmt: skip
            self.refused(refusal.FENCED, fences.admit, lower)
        fences.admit([2, 0, 0, 0, 0])
        self.assertEqual(fences.highest, (2, 0, 0, 0, 0))

    def test_shape(self):
        for bad in (None, 1, [], [1, 2, 3, 4], [1, 2, 3, 4, -1], [1, 2, 3, 4, True],
                    [1, 2, 3, 4, 2**64], ["1", 2, 3, 4, 5]):  # fmt: skip
            self.refused(refusal.BAD_REQUEST, fence.parse, bad, text="five unsigned")


if __name__ == "__main__":
    unittest.main()
