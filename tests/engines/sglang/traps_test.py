"""A stock SGLang server by itself: each way in which it answers yes to what was not done, or dies of what it is told.

Baton's adapter is written against these answers (agent/engine/sglang*.c); a release that answers otherwise shows here
first.  Nothing of Baton runs in this module.  Every test leaves the server on v1, unpaused, with an empty cache."""

import hashlib
import os
import shutil
import tempfile
import threading
import time
import unittest

import rotation
from sglang_server import Gone, Server

import landings
import torch

PROMPT = "The conductor lifts the baton and "
LONG_TOKENS = 400
WAIT_SECONDS = 300


def said(answer):
    """[text, log-probabilities] of a /generate."""
    return [answer["text"], [row[0] for row in answer["meta_info"]["output_token_logprobs"]]]


def expected_sums(version):
    """{engine tensor: checksum} by the checkpoint's own bytes: SHA-256, of which SGLang shows 8 bytes."""
    parts = {}
    for name, tensor in landings.tensors_of(version).items():
        for piece, whole, place in (("q_proj", "qkv_proj", 0), ("k_proj", "qkv_proj", 1), ("v_proj", "qkv_proj", 2),
                                    ("gate_proj", "gate_up_proj", 0), ("up_proj", "gate_up_proj", 1)):  # fmt: skip
            if f".{piece}." in name:
                parts.setdefault(name.replace(piece, whole), {})[place] = tensor
                break
        else:
            parts[name] = {0: tensor}
    found = {}
    for name, pieces in parts.items():
        bytes_of = [pieces[place].contiguous().view(-1).view(dtype=torch.uint8).numpy() for place in sorted(pieces)]
        whole = b"".join(piece.tobytes() for piece in bytes_of)
        if name in ("model.embed_tokens.weight", "lm_head.weight"):  # Rows of zeros up to a multiple of 64.
            rows = pieces[0].shape[0]
            whole += bytes(len(whole) // rows * (-rows % 64))
        found[name] = hashlib.sha256(whole).hexdigest()[:16]
    return found


class Background(threading.Thread):
    """A request under way; result() is its answer."""

    def __init__(self, server, tokens=LONG_TOKENS, prompt=PROMPT):
        super().__init__(daemon=True)
        self.server, self.tokens, self.prompt, self.answer, self.error = server, tokens, prompt, None, None
        self.start()

    def run(self):
        try:
            self.answer = self.server.generate(self.prompt, self.tokens)
        except (Gone, OSError, AssertionError) as error:
            self.error = error

    def running(self):
        """Once the server generates for it."""
        deadline = time.monotonic() + WAIT_SECONDS
        while time.monotonic() < deadline:
            loads = self.server.call("GET", "/v1/loads").json["loads"]
            if sum(load["num_running_reqs"] for load in loads):
                return self
            time.sleep(0.02)
        raise AssertionError(f"the request does not run: {loads}")

    def result(self):
        self.join(WAIT_SECONDS)
        assert not self.is_alive(), "the request got no answer"
        assert self.error is None, self.error
        return self.answer


class WithServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.root = tempfile.mkdtemp(prefix="baton-sglang-")
        cls.addClassCleanup(shutil.rmtree, cls.root, ignore_errors=True)
        cls.path = {v: landings.checkpoint(v) for v in ("v1", "v2")}
        cls.server = Server(cls.root, "server", cls.path["v1"])
        cls.addClassCleanup(cls.server.stop)
        cls.server.wait_ready()

    def load(self, path, **more):
        return self.server.post("/update_weights_from_disk", model_path=str(path), **more)

    def wrong(self, name, change):
        """A copy of v2 whose tensors 'change' was allowed to touch."""
        folder, _ = landings.land(self.root, name, "v2", change)
        return folder


class Answers(WithServer):
    """What it says yes to."""

    def setUp(self):
        self.addCleanup(self.back_on_v1)

    def back_on_v1(self):
        self.server.must("/continue_generation")
        self.assertEqual(200, self.load(self.path["v1"], abort_all_requests=True, weight_version="v1").status)
        self.server.flush()

    def test_checksums_are_those_of_the_files_bytes(self):
        """So what is resident can be verified against a landing, without a reference engine."""
        self.assertEqual(expected_sums("v1"), self.server.sums())
        self.load(self.path["v2"])
        self.assertEqual(expected_sums("v2"), self.server.sums())
        self.assertNotEqual(expected_sums("v1"), expected_sums("v2"))

    def test_control_routes_want_the_key_and_generation_does_not(self):
        for path in ("/pause_generation", "/update_weights_from_disk", "/weights_checker", "/update_weight_version"):
            self.assertIn(self.server.call("POST", path, {}, key=False).status, (401, 403), path)
        self.assertTrue(self.server.generate(PROMPT)["text"])

    def test_a_missing_layer_is_answered_with_success_and_labelled(self):
        part = self.wrong("part", lambda tensors: {n: t for n, t in tensors.items() if ".layers.1." not in n})
        answer = self.load(part, weight_version="v2")
        self.assertEqual((200, True), (answer.status, answer.json["success"]))
        self.assertEqual("v2", self.server.info()["weight_version"])
        found, old, new = self.server.sums(), expected_sums("v1"), expected_sums("v2")
        lost = {name for name in found if found[name] != new[name]}
        self.assertTrue(lost and all(".layers.1." in name and found[name] == old[name] for name in lost), lost)

    def test_a_damaged_tensor_is_answered_with_success_and_labelled(self):
        def zero(tensors):
            return {n: t.zero_() if n == "model.norm.weight" else t for n, t in tensors.items()}

        self.assertEqual(200, self.load(self.wrong("zero", zero), weight_version="v2").status)
        self.assertEqual("v2", self.server.info()["weight_version"])
        differ = {n for n, s in self.server.sums().items() if s != expected_sums("v2")[n]}
        self.assertEqual({"model.norm.weight"}, differ)

    def test_unknown_fields_are_ignored(self):
        """A misspelt field is a yes: the adapter's requests are compared with the real routes here, too."""
        before = self.server.info()["weight_version"]
        self.assertEqual(200, self.load(self.path["v2"], wieght_version="v2").status)
        self.assertEqual(before, self.server.info()["weight_version"])

    def test_a_disk_update_renames_the_model(self):
        self.load(self.path["v2"])
        self.assertEqual([self.path["v2"]] * 2, [self.server.info()[k] for k in ("model_path", "served_model_name")])
        self.assertEqual(self.path["v2"], self.server.call("GET", "/v1/models").json["data"][0]["id"])

    def test_a_label_moves_without_weights(self):
        sums = self.server.sums()
        self.server.must("/update_weight_version", new_version="v9", abort_all_requests=False)
        self.assertEqual("v9", self.server.generate(PROMPT)["meta_info"]["weight_version"])
        self.assertEqual(sums, self.server.sums())

    def test_what_cannot_be_read_is_refused_and_changes_nothing(self):
        answer = self.load("/nowhere", weight_version="v2")
        self.assertEqual(400, answer.status)
        self.assertEqual(expected_sums("v1"), self.server.sums())
        self.assertEqual("v1", self.server.info()["weight_version"])

    def test_stale_prefixes_are_used_unless_flushed(self):
        fresh = said(self.server.generate(PROMPT * 4))
        self.server.flush()
        self.load(self.path["v2"], flush_cache=False)
        self.server.generate(PROMPT * 4)  # Leaves KV of v2.
        self.load(self.path["v1"], flush_cache=False)
        stale = self.server.generate(PROMPT * 4)
        self.assertGreater(stale["meta_info"]["cached_tokens"], 0)
        self.assertNotEqual(fresh, said(stale))
        self.server.flush()
        clean = self.server.generate(PROMPT * 4)
        self.assertEqual(0, clean["meta_info"]["cached_tokens"])
        self.assertEqual(fresh, said(clean))

    def test_a_salt_keeps_versions_apart_without_a_flush(self):
        fresh = said(self.server.generate(PROMPT * 4, cache_salt="baton-1"))
        self.server.flush()
        self.load(self.path["v2"], flush_cache=False)
        self.server.generate(PROMPT * 4, cache_salt="baton-2")  # Leaves KV of v2, the only one.
        self.load(self.path["v1"], flush_cache=False)
        self.assertEqual(fresh, said(self.server.generate(PROMPT * 4, cache_salt="baton-3")))

    def test_ready_tells_a_pause_at_once(self):
        self.assertEqual(200, self.server.call("GET", "/ready").status)
        for mode in ("abort", "retract", "in_place"):
            self.server.must("/pause_generation", mode=mode)
            self.assertEqual(503, self.server.call("GET", "/ready").status, mode)
            self.server.must("/continue_generation")
            self.assertEqual(200, self.server.call("GET", "/ready").status, mode)

    def test_what_comes_while_paused_waits_for_the_next_version(self):
        self.server.must("/pause_generation", mode="retract")
        waiting = Background(self.server, 8)
        self.load(self.path["v2"], weight_version="v2")
        self.assertTrue(waiting.is_alive())
        self.server.must("/continue_generation")
        self.assertEqual("v2", waiting.result()["meta_info"]["weight_version"])

    def test_retract_lets_the_cache_be_flushed_and_the_answer_spans_both(self):
        running = Background(self.server).running()
        self.server.must("/pause_generation", mode="retract")
        self.assertEqual(400, self.server.post("/flush_cache?timeout=1").status)  # Waits for an empty queue, too.
        self.server.flush()
        self.load(self.path["v2"], flush_cache=False, weight_version="v2")
        self.server.must("/continue_generation")
        spans = [span["version"] for span in running.result()["meta_info"]["weight_versions"]]
        self.assertEqual(["v1", "v2"], spans)

    def test_in_place_refuses_the_flush_after_it_moved_the_weights(self):
        """400 is not "nothing happened", and the labels disagree."""
        self.load(self.path["v1"], weight_version="v1")
        running = Background(self.server).running()
        self.server.must("/pause_generation", mode="in_place")
        self.assertEqual(400, self.server.call("POST", "/flush_cache", {}).status)
        answer = self.load(self.path["v2"], weight_version="v2")
        self.assertEqual(400, answer.status)
        self.assertEqual(expected_sums("v2"), self.server.sums())
        self.assertEqual("v1", self.server.info()["weight_version"])
        self.server.must("/continue_generation")
        self.assertIn("v2", [s["version"] for s in running.result()["meta_info"]["weight_versions"]])

    def test_abort_ends_what_runs_with_what_it_has(self):
        running = Background(self.server).running()
        self.server.must("/pause_generation", mode="abort")
        found = running.result()
        self.assertEqual("abort", found["meta_info"]["finish_reason"]["type"])
        self.assertLess(found["meta_info"]["completion_tokens"], LONG_TOKENS)

    def test_routes_of_other_dialects(self):
        paths = set(self.server.call("GET", "/openapi.json").json["paths"])
        self.assertLessEqual({"/begin_weight_update", "/end_weight_update", "/update_weights_from_tensor"}, paths)
        self.assertFalse({"/pull_weights", "/post_process_weights"} & paths)
        body = {"serialized_named_tensors": [""], "weight_version": "v2"}
        self.assertEqual(400, self.server.call("POST", "/update_weights_from_tensor", body).status)  # No session.
        self.assertEqual("v1", self.server.info()["weight_version"])


class Deaths(WithServer):
    """What it dies of, or hangs by: a run has one of them, chosen by the seed; each takes a server."""

    def setUp(self):
        if self.server.process.poll() is not None or self.server.stalled:
            type(self).server = Server(self.root, self.id(), self.path["v1"])
            self.addClassCleanup(self.server.stop)
            self.server.wait_ready()

    @classmethod
    def setUpClass(cls):
        Server.stalled = False
        super().setUpClass()

    def check_cut(self, path, **body):
        with self.assertRaises(Gone):
            answer = self.server.post(path, **body)
            self.fail(f"{path} was answered {answer.status}: {answer.text}")
        self.assertTrue(self.server.dies(), self.server.tail())

    @rotation.chosen("truncated")
    def test_a_truncated_file(self):
        folder = self.wrong("truncated", lambda tensors: tensors)
        file = os.path.join(folder, "model.safetensors")
        os.truncate(file, os.path.getsize(file) // 2)
        self.check_cut("/update_weights_from_disk", model_path=folder)

    @rotation.chosen("shape")
    def test_a_norm_of_another_shape(self):
        def narrow(tensors):
            return {n: t[:-1].clone() if n == "model.norm.weight" else t for n, t in tensors.items()}

        self.check_cut("/update_weights_from_disk", model_path=self.wrong("narrow", narrow))

    @rotation.chosen("release")
    def test_memory_released_while_a_request_runs(self):
        Background(self.server, 300).running()
        self.check_cut("/release_memory_occupation", tags=["kv_cache", "weights"])

    @rotation.chosen("resume")
    def test_memory_resumed_that_was_not_released(self):
        self.check_cut("/resume_memory_occupation", tags=["weights"])

    @rotation.chosen("peer")
    def test_a_group_whose_peer_is_absent_stops_generation(self):
        group = {"master_address": "127.0.0.1", "master_port": 1, "rank_offset": 1, "world_size": 2,
                 "group_name": "g", "backend": "gloo"}  # fmt: skip
        asking = threading.Thread(target=lambda: self.server.call("POST", "/init_weights_update_group", group), daemon=True)
        asking.start()
        deadline = time.monotonic() + WAIT_SECONDS
        request = None
        while not (request and request.is_alive()):  # Those that came before the scheduler took the call are answered.
            self.assertLess(time.monotonic(), deadline, "it generates beside a group that nobody joins")
            request = Background(self.server, 1)
            request.join(20)
        Server.stalled = True
