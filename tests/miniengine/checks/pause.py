"""Pauses, resumes and stale caches, as measured on vLLM 0.32."""

import os
import threading

from harness import SLOW, Engine, Stream, Swap, close, equal, expected, landing, prompt, until

LONG = 160


def _reference(version, prefix, tokens):
    """What a fresh server of a version gives after these tokens."""
    with Engine(version) as engine:
        return engine.tokens(prefix, tokens)


def _ids(name):
    return list(prompt(name).encode())


def _says(engine):
    return engine.tokens(prompt("river"), 20)


def _resident_bytes(engine):
    with open(f"/proc/{engine.process.pid}/statm", encoding="utf-8") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def check_keep_with_clear_goes_on_with_fresh_kv():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("long"), LONG).wait_for(30)
        swap = Swap(engine, "v2")
        swap.pause("keep", "true")
        cut = stream.still()
        swap.good(swap.stage())
        swap.good(swap.finish())
        swap.resume()
        engine.fast()
        stream.end()
        equal((len(stream.ids), stream.reason), (LONG, "length"), "the request ended well")
    old = _reference("v1", _ids("long"), LONG)[0]
    new, logprobs = _reference("v2", _ids("long") + stream.ids[:cut], LONG - cut)
    equal(stream.ids[:cut], old[:cut], "v1 before the cut")
    equal(stream.ids[cut:], new, "v2 after the cut")
    close(stream.logprobs[cut:], logprobs, 1e-4, "as if v2 had computed everything")


def check_keep_without_clear_goes_on_with_stale_kv():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("long"), LONG).wait_for(30)
        swap = Swap(engine, "v2")
        swap.pause("keep", "false")
        cut = stream.still()
        swap.good(swap.stage())
        swap.good(swap.finish())
        swap.resume()
        engine.fast()
        stream.end()
    fresh = _reference("v2", _ids("long") + stream.ids[:cut], LONG - cut)[1]
    equal(abs(stream.logprobs[cut + 1] - fresh[1]) > 1e-3, True, "old KV shows in log-probabilities")


def check_a_stale_prefix_shows_until_the_cache_is_reset():
    with Engine("v1") as engine:
        engine.tokens(prompt("long"))
        Swap(engine, "v2").run("keep", "false")
        stale = engine.tokens(prompt("long"))[1]
        fresh = expected("v2", "long")[1]
        equal(max(abs(a - b) for a, b in zip(stale, fresh, strict=True)) > 1e-3, True, "stale")
        close(engine.tokens(prompt("long"), cache_salt="fresh")[1], fresh, 1e-4, "a salt helps")
        equal(engine.post("/reset_prefix_cache").ok(), {"success": True}, "reset")
        close(engine.tokens(prompt("long"))[1], fresh, 1e-4, "a reset helps")


def check_clear_with_the_pause_leaves_no_stale_prefix():
    with Engine("v1", ranks=2) as engine:
        engine.tokens(prompt("long"))
        Swap(engine, "v2").run("keep", "true")
        close(engine.tokens(prompt("long"))[1], expected("v2", "long")[1], 1e-4, "fresh")


def check_wait_drains():
    with Engine("v1") as engine:
        stream = Stream(engine, prompt("river"), LONG).wait_for(5)
        engine.post("/pause?mode=wait").ok()
        equal(stream.end().reason, "length", "ended before the pause answered")
        equal(len(stream.ids), LONG, "all of it")


def check_wait_queues_arrivals_and_is_paused_meanwhile():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 700).wait_for(5)
        waiter = threading.Thread(target=lambda: engine.post("/pause?mode=wait"))
        waiter.start()
        until("paused while draining", lambda: engine.get("/is_paused").ok()["is_paused"])
        equal(stream.done, False, "still draining")
        late = Stream(engine, prompt("river"), 5)
        engine.fast()
        waiter.join()
        equal((stream.end().reason, late.ids), ("length", []), "drained, the late one waits")
        engine.post("/resume").ok()
        equal(len(late.end().ids), 5, "it runs after the resume")


def check_abort_ends_what_runs():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 1500).wait_for(5)
        engine.post("/pause").ok()
        stream.end()
        equal((stream.reason, stream.done, stream.response.status), ("abort", True, 200), "aborted")


def check_abort_bounds_a_wait():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 1500).wait_for(5)
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(engine.post("/pause?mode=wait").status))
        waiter.start()
        until("closed", lambda: engine.get("/is_paused").ok()["is_paused"])
        equal(engine.post("/pause?mode=abort").status, 200, "abort")
        waiter.join()
        equal((answers, stream.end().reason), ([200], "abort"), "both answered")
        equal(engine.get("/is_paused").ok(), {"is_paused": True}, "paused")


def check_a_resume_wins_over_a_wait():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 700).wait_for(5)
        answers = []
        waiter = threading.Thread(target=lambda: answers.append(engine.post("/pause?mode=wait").ok()))
        waiter.start()
        until("closed", lambda: engine.get("/is_paused").ok()["is_paused"])
        engine.post("/resume").ok()
        equal(engine.get("/is_paused").ok(), {"is_paused": False}, "resumed")
        engine.fast()
        stream.end()
        waiter.join()
        equal(answers, [{"status": "paused"}], "and yet it answers")
        equal(engine.get("/is_paused").ok(), {"is_paused": False}, "not paused at all")


def check_keep_freezes_and_wait_after_keep_drains_nothing():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), LONG).wait_for(5)
        engine.post("/pause?mode=keep").ok()
        count = stream.still()
        engine.post("/pause?mode=wait").ok()
        for _ in range(50):  # Each goes through the engine's thread, which steps in between if it may.
            equal(engine.get("/is_paused").ok(), {"is_paused": True}, "paused")
        equal((len(stream.ids), stream.done), (count, False), "frozen")
        equal(engine.get("/is_sleeping").ok(), {"is_sleeping": True}, "asleep too")
        engine.post("/resume").ok()
        engine.fast()
        equal(len(stream.end().ids), LONG, "goes on")


def check_a_second_abort_empties_a_paused_server():
    with Engine("v1", options=SLOW) as engine:
        frozen = Stream(engine, prompt("river"), LONG).wait_for(5)
        engine.post("/pause?mode=keep").ok()
        queued = Stream(engine, prompt("river"), LONG)
        until("a head", lambda: queued.response is not None)
        equal((queued.response.status, queued.ids), (200, []), "queued: a head and nothing more")
        engine.post("/pause?mode=abort").ok()
        equal((frozen.end().reason, queued.end().reason), ("abort", "abort"), "both ended")


def check_a_client_that_leaves_while_frozen_is_dropped():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("long"), LONG).wait_for(5)
        engine.post("/pause?mode=keep&clear_cache=false").ok()
        equal(engine.metric("vllm:num_requests_running"), 1, "running")
        equal(engine.post("/reset_prefix_cache").ok(), {"success": False}, "in use")
        stream.leave()
        until("dropped", lambda: engine.metric("vllm:num_requests_running") == 0)
        equal(engine.post("/reset_prefix_cache").ok(), {"success": True}, "free")


def check_a_reset_with_running_requests_recomputes():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("long"), LONG).wait_for(5)
        equal(engine.post("/reset_prefix_cache").ok(), {"success": False}, "in use")
        equal(engine.post("/reset_prefix_cache?reset_running_requests=true").ok(), {"success": True}, "reset")
        engine.fast()
        stream.end()
    equal(stream.ids, _reference("v1", _ids("long"), LONG)[0], "the same answer")


def check_abort_requests():
    with Engine("v1", options=SLOW) as engine:
        equal(engine.post("/abort_requests", {}).ok(), {"status": "aborted", "aborted": 0}, "none")
        equal(engine.post("/abort_requests", {"request_ids": "x"}).ok()["aborted"], 1, "a string counts")
        stream = Stream(engine, prompt("river"), 1500, headers={"X-Request-Id": "mine"}).wait_for(3)
        engine.post("/abort_requests", {"request_ids": ["cmpl-mine"]}).ok()
        equal(stream.end().reason, "abort", "by id")
        equal(engine.post("/abort_requests").json()["error"]["message"], "Invalid JSON format", "no body")
        equal(engine.post("/abort_requests", [1]).status, 400, "a list")


def check_pause_parameters():
    with Engine("v1", options=SLOW) as engine:
        equal(engine.post("/pause?mode=bogus").json()["error"]["param"], "query.mode", "mode")
        equal(engine.post("/pause?clear_cache=zzz").json()["error"]["param"], "query.clear_cache", "clear")
        stream = Stream(engine, prompt("river"), 1500).wait_for(3)
        engine.post("/pause", {"mode": "keep"}).ok()
        equal(stream.end().reason, "abort", "the body is ignored: the mode is abort")
        engine.post("/resume").ok()
        equal(engine.post("/resume").ok(), {"status": "resumed"}, "twice")


def check_sleep_and_wake_are_pause_and_resume():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 1500).wait_for(3)
        equal(engine.post("/sleep?level=1").ok(), {"status": "sleeping", "level": 1}, "sleep")
        equal(stream.end().reason, "abort", "it aborts")
        equal(engine.post("/wake_up?tags=scheduling").ok(), {"status": "sleeping", "tags": ["scheduling"]}, "tags")
        equal(engine.get("/is_paused").ok(), {"is_paused": True}, "still paused")
        equal(engine.post("/wake_up").ok(), {"status": "awake", "tags": None}, "wake")
        equal(engine.get("/is_paused").ok(), {"is_paused": False}, "and resumed")
        equal(engine.post("/sleep?level=9").status, 400, "level")
        equal(engine.post("/reset_encoder_cache").status, 200, "no such cache, no error")


def check_a_deep_sleep_gives_memory_away_and_forgets_its_weights():
    with Engine("v1", options=("--enable-sleep-mode", "--kv-blocks", "8192")) as engine:
        before = _says(engine)
        digest = landing("v1")[1]
        full = _resident_bytes(engine)
        engine.post("/sleep?level=2&mode=abort").ok()
        asleep = _resident_bytes(engine)
        equal(asleep < full, True, f"memory is released: {full} to {asleep} bytes")
        equal(engine.get("/is_sleeping").ok(), {"is_sleeping": True}, "asleep")
        equal(engine.post("/wake_up?tags=scheduling").ok()["status"], "sleeping", "no memory, no scheduling")
        equal(engine.post("/resume").status, 500, "nor by a resume")
        equal(engine.rpc("baton_readback", landing=landing("v1")[0], version_digest=digest)[0]["readback"]["ok"], False, "no weights")
        equal(engine.post("/sleep?level=2").ok()["status"], "sleeping", "twice")
        equal(engine.post("/wake_up").ok(), {"status": "awake", "tags": None}, "awake")
        equal(engine.get("/is_paused").ok(), {"is_paused": False}, "and resumed")
        equal(_says(engine) != before, True, "what it says now comes from no weights")
        report = engine.rpc("baton_readback", landing=landing("v1")[0], version_digest=digest)[0]
        equal((report["readback"]["ok"], report["resident"]), (False, None), "and it knows")
        engine.rpc("reload_weights", weights_path=landing("v1")[0])
        equal(_says(engine), before, "until weights come")


def check_a_light_sleep_keeps_its_weights():
    with Engine("v1", ranks=2, options=("--enable-sleep-mode",)) as engine:
        before = _says(engine)
        engine.post("/sleep?level=1").ok()
        engine.post("/wake_up").ok()
        equal(_says(engine), before, "the same weights")


def check_a_swap_without_a_pause_cuts_through():
    with Engine("v1", options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 1000).wait_for(20)
        folder, _ = landing("v2")
        engine.rpc("reload_weights", weights_path=folder)
        engine.fast()
        equal(len(stream.end().ids), 1000, "the request goes on")
        equal(engine.get("/weight_info").ok(), {"weight_version": "default"}, "and no label tells")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
