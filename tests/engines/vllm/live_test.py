"""Real vLLM 0.32 with the guard and the engine: one server with one rank, one with two.

Rows of the verified facts that a stock server shows on a CPU are shown on vLLM's own path first
(`/collective_rpc reload_weights`), then refused by the engine.  Tests of a class run by name; those
that leave a server unsound come last."""

import threading
import time
import unittest

import asking
import landings
import rotation
import servers
import torch
import wrong
from baton.vllm import refusal
from asking import PROMPTS
from live_case import Asking, Fleet, LiveCase, answers, ask

FLEET = Fleet()


def setUpModule():
    LiveCase.fleet = FLEET
    unittest.addModuleCleanup(FLEET.stop)


class Everywhere:
    """Tests for any number of ranks."""

    def test_01_boots_shut(self):
        server = self.server
        self.assertEqual(server.call("GET", "/health").status, 200)
        self.assertEqual(ask(server, "x").status, 503)
        for path in ("/pause", "/collective_rpc", "/update_weights", "/baton/guard"):
            self.assertEqual(server.call("POST", path, {}).status, 403, path)
        state = server.call("GET", "/baton/guard", token=True).json
        self.assertEqual((state["gate"], state["boots"], state["version"]), ("shut", 1, 0))

    def test_02_reads_back_what_it_booted(self):
        for version, good in (("v1", True), ("v2", False), ("v3", False)):
            folder, digest = self.fleet.landing[version]
            for rank in self.server.rpc("baton_readback", landing=folder, version_digest=digest):
                found = rank["readback"]
                self.assertEqual((found["ok"], found["level"]), (good, "resident"), version)
                self.assertEqual(found["mismatched"] == [], good)
                self.assertIsNone(rank["applied"])

    def test_03_gate_opens_by_the_page(self):
        self.server.page.write(servers.OPEN, 1)
        answer = ask(self.server, PROMPTS[0])
        self.assertEqual((answer.status, answer.headers["x-baton-version"]), (200, "1"))
        self.assertEqual(answer.headers["x-baton-version-end"], "1")
        for header, value, status in (("min", 1, 200), ("min", 2, 409), ("exact", 2, 409)):
            headers = [(f"x-baton-{header}-version", str(value))]
            self.assertEqual(ask(self.server, "x", headers=headers).status, status)

    def test_04_swap_equals_a_fresh_server(self):
        self.server.control("/init_weight_transfer_engine", {"init_info": {"protocol": 1}})
        self.swap("v2")
        self.serves("v2")
        self.swap("v1")
        self.serves("v1")

    def test_05_a_held_request_meets_the_new_version(self):
        server, found = self.server, []
        server.page.write(servers.HOLD, 1, hold_ms=30000)
        headers = [("x-baton-min-version", "2")]
        asking = threading.Thread(
            target=lambda: found.append(ask(server, PROMPTS[1], headers=headers))
        )
        asking.start()
        while asking.is_alive() and server.page.counters()[0] == 0:
            asking.join(0.01)
        self.swap("v2")
        server.page.write(servers.OPEN, 2)
        asking.join(60)
        choice = found[0].json["choices"][0]
        self.assertEqual(choice["text"], self.fleet.fresh[self.ranks, "v2"][1][0])
        self.assertEqual(found[0].headers["x-baton-version"], "2")
        self.swap("v1")

    def test_06_small_step_shows_in_logprobs_only(self):
        self.swap("v2")
        self.swap("v3")
        old, new = self.fleet.fresh[self.ranks, "v2"], answers(self.server)
        self.assertEqual(new[0][0], old[0][0])
        self.assertNotEqual([found[1] for found in new], [found[1] for found in old])
        self.swap("v1")
        self.serves("v1")

    def long(self):
        """Tokens of a request; two ranks on few cores are slow."""
        return 300 // self.ranks**2

    def live(self, version, fence):
        """The one call of a live swap; returns the ranks' reports."""
        digest = self.fleet.landing[version][1]
        return self.server.rpc("baton_live", version_digest=digest, fence=fence[:4] + [fence[4] + 1])

    def prepare(self, version, fence):
        folder, digest = self.fleet.landing[version]
        return self.server.rpc("baton_prepare", landing=folder, version_digest=digest, fence=fence)

    def test_07_live_swap_under_a_running_request(self):
        for version in ("v2", "v1"):
            fence = self.fence()
            with Asking(self.server, self.long()) as asked:
                for rank in self.prepare(version, fence):
                    self.assertTrue(rank["live"], rank["live_why"])
                    self.assertTrue(rank["staged"]["ok"], rank["staged"])
                    self.assertFalse(rank["session"])
                called = time.monotonic()
                for rank in self.live(version, fence):
                    self.assertTrue(rank["applied"]["ok"], rank["applied"])
                    self.assertEqual(rank["resident"]["version_digest"], self.fleet.landing[version][1])
                    self.assertTrue(rank["readback"]["ok"])
                self.assertFalse(self.server.call("GET", "/is_paused", token=True).json["is_paused"])
            self.assertEqual({(200, self.long())}, asked.outcomes())
            self.assertTrue(asked.was_inside(called), "no request was under way when the call was made")
            self.serves(version)

    def test_08_live_failures_put_back_while_requests_run(self):
        for kind, rank, at in (("raise", 0, 5), ("raise", self.last, 40), ("drop", self.last, 7)):
            with self.subTest(f"{kind} at tensor {at} of rank {rank}"):
                fence = self.fence()
                with Asking(self.server, self.long()) as asked:
                    self.prepare("v2", fence)
                    self.server.fault(kind=kind, rank=rank, at=at)
                    for report in self.live("v2", fence):
                        applied = report["applied"]
                        self.assertEqual((applied["ok"], applied["restored"]), (False, True), applied)
                    self.server.no_fault()
                self.assertEqual({(200, self.long())}, asked.outcomes())
                self.in_step()
        self.serves("v1")

    def test_09_live_calls_without_their_preparation_do_nothing(self):
        fence, later = self.fence(), self.fence()
        for rank in self.live("v2", fence):
            self.assertEqual(rank["applied"]["error"]["code"], refusal.BAD_REQUEST)
            self.assertTrue(rank["applied"]["restored"])
        self.prepare("v2", later)
        for rank in self.live("v2", fence):
            self.assertEqual(rank["applied"]["error"]["code"], refusal.FENCED)
        self.prepare("v2", later)
        self.server.rpc("baton_fence", fence=later[:4] + [later[4] + 2])
        for rank in self.live("v2", later):
            self.assertEqual(rank["applied"]["error"]["code"], refusal.FENCED)
        self.in_step()
        self.serves("v1")

    def test_10_wrong_content_is_refused_before_the_model(self):
        odd = "model.layers.1.self_attn.z_proj.weight"
        for name, change, code, tensor in (
            ("missing", wrong.without(wrong.VICTIM), refusal.MISSING_TENSOR, wrong.VICTIM),
            ("no-norm", wrong.without("model.norm.weight"), refusal.MISSING_TENSOR, None),
            ("partial", wrong.only_o_proj, refusal.MISSING_TENSOR, None),
            ("nothing", wrong.nothing, refusal.MISSING_TENSOR, None),
            ("float32", wrong.as_dtype(torch.float32), refusal.DTYPE_MISMATCH, None),
            ("int32", wrong.as_dtype(torch.int32), refusal.DTYPE_MISMATCH, None),
            ("fp8", wrong.as_dtype(torch.float8_e4m3fn), refusal.DTYPE_MISMATCH, None),
            ("unknown", wrong.with_unknown, refusal.UNEXPECTED_TENSOR, odd),
            ("shape", wrong.with_wrong_shape, refusal.SHAPE_MISMATCH, "model.norm.weight"),
        ):  # fmt: skip
            with self.subTest(name):
                self.refuses(self.land("wrong-" + name, "v2", change), code, tensor)
        self.serves("v1")

    def test_11_unsound_landings_are_refused(self):
        good = self.fleet.landing["v1"]
        root, unreadable = self.land("odd", "v1")[0], refusal.LANDING_UNREADABLE
        with self.subTest("the same tensor twice"):
            self.refuses(wrong.land_twice(root), unreadable)
        with self.subTest("one bit turned"):
            self.refuses(wrong.land_damaged((root, good[1])), refusal.DIGEST_MISMATCH)
        with self.subTest("file cut off"):
            self.refuses(wrong.land_truncated((root, good[1])), unreadable)
        with self.subTest("another version's digest"):
            self.refuses((good[0], "0" * 32), refusal.DIGEST_MISMATCH)
        with self.subTest("no such folder"):
            self.refuses((root + "/none", good[1]), unreadable)
        with self.subTest("a path that is not absolute"):
            self.refuses(("landing", good[1]), refusal.BAD_REQUEST)
        self.serves("v1")

    def test_12_wrong_calls_are_recorded_not_raised(self):
        server = self.server
        for info in ({}, {"no_such_field": 1}, [], {"landing": 1, "version_digest": 2, "fence": 3}):
            server.control("/start_weight_update")
            server.control("/update_weights", {"update_info": info})
            for rank in self.report():
                self.assertEqual(rank["staged"]["error"]["code"], refusal.BAD_REQUEST)
        server.control("/start_weight_update")
        for rank in self.finish():
            self.assertFalse(rank["session"])
        self.finish()
        for rank in self.update(self.fleet.landing["v2"]):
            self.assertEqual(rank["staged"]["error"]["code"], refusal.BAD_REQUEST)
        self.finish()
        server.control("/init_weight_transfer_engine", {"init_info": {"zz": 1}})
        server.rpc("baton_fence", odd=1)
        server.rpc("baton_readback")
        self.in_step()
        self.serves("v1")

    def test_20_failure_in_the_middle_of_a_load_is_rolled_back(self):
        self.pause()
        for kind, rank, at in (
            ("raise", self.last, 0), ("raise", 0, 5), ("raise", self.last, 20), ("raise", 0, 46),
            ("drop", self.last, 7), ("damage", 0, 30), ("damage", self.last, 0),
        ):  # fmt: skip
            with self.subTest(f"{kind} at tensor {at} of rank {rank}"):
                self.server.fault(kind=kind, rank=rank, at=at)
                self.start_and_update(self.fleet.landing["v2"])
                for found in self.finish():
                    applied = found["applied"]
                    self.assertEqual((applied["ok"], applied["restored"]), (False, True))
                    mine = found["rank"] == rank
                    self.assertEqual(applied["error"]["code"] == refusal.PEER_FAILED, not mine)
                self.in_step()
                folder, digest = self.fleet.landing["v1"]
                for found in self.server.rpc(
                    "baton_readback", landing=folder, version_digest=digest
                ):
                    self.assertTrue(found["readback"]["ok"], found["readback"])
        self.resume()
        self.serves("v1")

    def test_21_a_retry_after_a_failure_works(self):
        self.server.fault(kind="raise", rank=0, at=9)
        self.pause()
        self.start_and_update(self.fleet.landing["v2"])
        self.assertFalse(self.finish()[0]["applied"]["ok"])
        self.server.no_fault()
        self.resume()
        self.swap("v2")
        self.serves("v2")
        self.swap("v1")
        self.serves("v1")

    def test_22_late_calls_do_nothing(self):
        old, new = self.fence(), self.fence()
        self.pause()
        self.start_and_update(self.fleet.landing["v2"], old)
        for rank in self.server.rpc("baton_fence", fence=new):
            self.assertEqual(rank["staged"]["error"]["code"], refusal.FENCED)
            self.assertEqual(rank["fence"], new)
        before = self.report()[0]["applied"]
        self.assertEqual(self.finish()[0]["applied"], before)
        for rank in self.start_and_update(self.fleet.landing["v2"], old):
            self.assertEqual(rank["staged"]["error"]["code"], refusal.FENCED)
        for rank in self.update(self.fleet.landing["v1"], new):
            self.assertTrue(rank["staged"]["ok"])
        for rank in self.update(self.fleet.landing["v2"], old):
            self.assertEqual(rank["staged"]["fence"], new, "a late stage replaces nothing")
        for rank in self.finish():
            self.assertEqual(rank["applied"]["version_digest"], self.fleet.landing["v1"][1])
        self.resume()
        self.in_step()
        self.serves("v1")


class OneRank(Everywhere, LiveCase):
    ranks = 1

    def reload(self, name, change):
        """vLLM's own reload from a folder that is wrong: (status, what is served afterwards)."""
        folder, _ = self.land("stock-" + name, "v2", change)
        body = {"method": "reload_weights", "kwargs": {"weights_path": folder}}
        answer = self.server.call("POST", "/collective_rpc", body, token=True)
        return answer.status, self.whatever_is_served() if answer.status == 200 else None

    def whatever_is_served(self):
        """Answers; memory that nobody initialised may also give no number, and then an error instead of one."""
        replies = [ask(self.server, prompt, token=True).json for prompt in PROMPTS]
        return [asking.said(r) if "choices" in r else ["no answer", []] for r in replies]

    def test_30_stock_reload_takes_what_is_wrong(self):
        old, new = (self.fleet.fresh[1, version] for version in ("v1", "v2"))
        for name, change, served in (
            ("missing", wrong.without(wrong.VICTIM), "neither"),
            ("partial", wrong.only_o_proj, "neither"),
            ("nothing", wrong.nothing, "old"),
            ("float32", wrong.as_dtype(torch.float32), "new"),
            ("int32", wrong.as_dtype(torch.int32), "neither"),
        ):  # fmt: skip
            with self.subTest(name):
                status, found = self.reload(name, change)
                self.assertEqual(status, 200)
                self.assertEqual(
                    (found == old, found == new), (served == "old", served == "new"), found[0][0]
                )
                folder, digest = self.fleet.landing["v1"]
                seen = self.server.rpc("baton_readback", landing=folder, version_digest=digest)
                self.assertEqual(seen[0]["readback"]["ok"], served == "old")
                self.swap("v1")
                self.serves("v1")

    def test_31_no_number_of_broken_weights_outlives_them(self):
        """KV blocks computed by NaN weights stay where they are; the next answer must not read them."""
        self.reload("nan", wrong.not_numbers)
        for _ in range(4):
            self.whatever_is_served()
        self.swap("v1")
        self.serves("v1")

    def test_90_a_model_torn_by_stock_reload_is_not_touched(self):
        self.assertEqual(self.reload("unknown", wrong.with_unknown)[0], 500)
        self.pause()
        self.start_and_update(self.fleet.landing["v2"])
        applied = self.finish()[0]["applied"]
        self.assertEqual(applied["error"]["code"], refusal.RESTORE_FAILED)
        self.assertFalse(applied["restored"])


class TwoRanks(Everywhere, LiveCase):
    ranks = 2

    def stage_apart(self, landings_of_ranks):
        """vLLM's list form: every rank gets its own landing."""
        fence = self.fence()
        infos = [{"landing": folder, "version_digest": digest, "fence": fence}
                 for folder, digest in landings_of_ranks]  # fmt: skip
        self.server.control("/start_weight_update")
        self.server.control("/update_weights", {"update_info": infos})
        return self.report()

    def test_15_one_rank_that_cannot_stage_stops_all(self):
        good = self.fleet.landing["v2"]
        bad = self.land("one-rank", "v2", wrong.without(wrong.VICTIM))
        self.pause()
        for first, second in ((good, bad), (bad, good)):
            found = self.stage_apart([first, second])
            self.assertEqual([r["staged"]["ok"] for r in found], [first is good, second is good])
            for rank in self.finish():
                applied = rank["applied"]
                self.assertEqual((applied["ok"], applied["restored"]), (False, True))
                self.assertEqual(applied["error"]["code"], refusal.PEER_FAILED)
            self.in_step()
        self.resume()
        self.serves("v1")

    def test_16_ranks_with_different_versions_apply_none(self):
        self.pause()
        found = self.stage_apart([self.fleet.landing["v2"], self.fleet.landing["v3"]])
        self.assertTrue(all(rank["staged"]["ok"] for rank in found))
        for rank in self.finish():
            self.assertEqual(rank["applied"]["error"]["code"], refusal.PEER_FAILED)
        self.resume()
        self.in_step()
        self.serves("v1")

    def test_17_a_list_that_is_too_short_keeps_the_channel_in_step(self):
        found = self.stage_apart([self.fleet.landing["v2"]])
        self.assertEqual([rank["staged"]["ok"] for rank in found], [True, False])
        for rank in self.finish():
            self.assertFalse(rank["applied"]["ok"])
        self.in_step()
        self.serves("v1")

    def test_90_any_error_of_a_stock_worker_shifts_the_answers(self):
        body = {"method": "no_such_method"}
        self.assertEqual(self.server.call("POST", "/collective_rpc", body, token=True).status, 500)
        late = self.server.call("POST", "/collective_rpc", {"method": "baton_report"}, token=True)
        self.assertNotEqual(late.status, 200, "rank 1 answers the call before: the error again")
        found = self.server.rpc("check_health")
        self.assertIsInstance(found[1], dict, "rank 1 answers with its report")


@rotation.chosen("tied")
class Tied(LiveCase):
    """A model whose output layer is its embedding: one tensor, two layers, two kernels."""

    @classmethod
    def setUpClass(cls):
        for version in ("v1", "v2"):
            folder, _ = landings.land(
                cls.fleet.root, f"tied-{version}", version, wrong.without("lm_head.weight")
            )
            cls.fleet.landing[f"tied-{version}"] = folder, landings.tie(folder)
        cls.server = cls.fleet.launch("tied", cls.fleet.landing["tied-v1"][0], 1).wait_ready()

    def swap_to(self, version, tensors=46):
        self.pause()
        self.start_and_update(self.fleet.landing[version])
        found = self.finish()[0]
        self.assertTrue(found["applied"]["ok"], found["applied"])
        self.assertEqual((found["readback"]["ok"], found["readback"]["tensors"]), (True, tensors))
        self.resume()
        return answers(self.server)

    def test_swap_and_read_back(self):
        before = answers(self.server)
        for version, good in (("tied-v1", True), ("tied-v2", False)):
            folder, digest = self.fleet.landing[version]
            seen = self.server.rpc("baton_readback", landing=folder, version_digest=digest)
            self.assertEqual(seen[0]["readback"]["ok"], good)
        # A stock reload leaves the output layer on the old weights where vLLM packs them for this
        # processor, and works where it does not: what is read back must say which.
        self.server.rpc("reload_weights", weights_path=self.fleet.landing["tied-v2"][0])
        folder, digest = self.fleet.landing["tied-v2"]
        seen = self.server.rpc("baton_readback", landing=folder, version_digest=digest)[0]
        self.assertIn(seen["readback"]["mismatched"], ([], ["model.embed_tokens.weight"]))
        reloaded = answers(self.server)
        swapped = self.swap_to("tied-v2")
        self.assertEqual(seen["readback"]["ok"], reloaded == swapped)
        self.assertNotEqual(swapped, before)
        self.assertEqual(self.swap_to("tied-v1"), before)
        self.refuses(self.fleet.landing["v1"], refusal.UNEXPECTED_TENSOR, "lm_head.weight")


del Everywhere

if __name__ == "__main__":
    unittest.main()
