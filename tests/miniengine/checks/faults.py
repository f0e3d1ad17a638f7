"""Faults on demand: each does what it says, and nothing else."""

import http.client
import os
import threading
import time

from harness import DEADLINE_S, SLOW, Engine, Stream, Swap, close, equal, expected, landing, prompt, until

ALLOWED = ("--faults",)


def _serves(engine, version):
    tokens, logprobs = expected(version, "river")
    got = engine.tokens(prompt("river"), len(tokens), cache_salt=f"probe-{time.monotonic()}")
    equal(got[0], tokens, version)
    close(got[1], logprobs, 1e-4, version)


def _is_neither(engine):
    """The outputs belong to no version."""
    got = engine.tokens(prompt("river"), 40, cache_salt=f"probe-{time.monotonic()}")[1]
    for version in ("v1", "v2"):
        wanted = expected(version, "river")[1]
        equal(max(abs(a - b) for a, b in zip(got, wanted, strict=True)) > 1e-2, True, "not " + version)


def _outcomes(engine, version="v2"):
    swap = Swap(engine, version)
    swap.good(swap.stage())
    return swap.finish()


def check_no_faults_without_the_flag():
    with Engine("v1") as engine:
        for method in ("GET", "POST", "DELETE"):
            equal(engine.call(method, "/miniengine/faults", "{}").status, 404, method)


def check_faults_are_listed_cleared_and_checked():
    with Engine("v1", 2, options=ALLOWED) as engine:
        found = engine.fault(kind="hang", phase="apply", rank=1, tensor=3, seconds=5)["faults"][0]
        equal((found["kind"], found["phase"], found["rank"], found["tensor"], found["ms"], found["fired"]),
              ("hang", "apply", 1, 3, 5000, []), "listed")
        equal(len(engine.fault(kind="lose", sticky=True)["faults"]), 2, "two")
        equal(engine.call("DELETE", "/miniengine/faults").ok(), {"faults": []}, "cleared")
        for bad in ({}, {"kind": "x", "phase": "apply"}, {"kind": "hang", "phase": "x"}, {"kind": "hang"},
                    {"kind": "die", "rank": 2}, {"kind": "hang", "phase": "reset", "rank": 1},
                    {"kind": "late", "rank": 0}, {"kind": "lose", "phase": "stage"}, {"kind": "lie", "phase": "probe"}, {"kind": "lie", "phase": "step"},
                    {"kind": "fail", "phase": "pause"}, {"kind": "hang", "phase": "pause", "tensor": 1}, {"kind": "slow", "phase": "apply", "ms": -1}):
            equal(engine.post("/miniengine/faults", bad).status, 400, bad)
        both = [{"kind": "lose"}, {"kind": "x"}]
        equal(engine.post("/miniengine/faults", both).status, 400, "all or none")
        equal(engine.get("/miniengine/faults").ok(), {"faults": []}, "none")


def check_fail_at_a_tensor_restores_all_ranks():
    for rank in (0, 1):
        with Engine("v1", 2, options=ALLOWED) as engine:
            engine.fault(kind="fail", phase="apply", rank=rank, tensor=11)
            applied = _outcomes(engine)
            equal([a["ok"] for a in applied], [False, False], "both failed")
            equal([a["restored"] for a in applied], [True, True], "both put back")
            equal(applied[rank]["error"]["code"], "LOAD_FAILED", "the one")
            equal(applied[rank]["error"]["tensor"].startswith("model.layers."), True, "with the tensor")
            equal((applied[1 - rank]["error"]["code"], applied[1 - rank]["error"]["rank"]), ("PEER_FAILED", rank),
                  "the other")
            _serves(engine, "v1")
            equal([a["ok"] for a in _outcomes(engine)], [True, True], "one shot")
            _serves(engine, "v2")


def check_fail_while_staging():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="fail", phase="stage", rank=1, tensor=2)
        swap = Swap(engine, "v2")
        equal([s["ok"] for s in swap.stage()], [True, False], "one rank has it")
        equal([a["ok"] for a in swap.finish()], [False, False], "nobody applies")
        _serves(engine, "v1")
        engine.fault(kind="fail", phase="stage", rank=0)
        equal([s["ok"] for s in Swap(engine, "v2").stage()], [False, True], "at the entry too")


def check_a_sticky_fault_comes_again():
    with Engine("v1", options=ALLOWED) as engine:
        engine.fault(kind="fail", phase="apply", sticky=True)
        for _ in range(2):
            equal([a["ok"] for a in _outcomes(engine)], [False], "fails")
        engine.call("DELETE", "/miniengine/faults").ok()
        equal([a["ok"] for a in _outcomes(engine)], [True], "cleared")


def _phase_calls(engine):
    swap = Swap(engine, "v2")
    info = {"update_info": {"landing": swap.folder, "version_digest": swap.digest, "fence": swap.fence}}
    back = {"method": "baton_readback", "kwargs": {"landing": swap.folder, "version_digest": swap.digest}}
    return {
        "pause": ("/pause?mode=keep", None), "start": ("/start_weight_update", None),
        "stage": ("/update_weights", info), "apply": ("/finish_weight_update", None),
        "readback": ("/collective_rpc", back), "reset": ("/reset_prefix_cache", None),
        "label": ("/update_weight_version", {"new_version": "v2"}), "resume": ("/resume", None),
        "probe": ("/v1/completions", {"prompt": prompt("river"), "max_tokens": 3}),
        "step": ("/v1/completions", {"prompt": prompt("river"), "max_tokens": 3}),
    }


def _hangs_until_cleared(engine, phase, path, body):
    rank = 0 if phase in ("reset", "label", "resume") else 1
    engine.fault(kind="hang", phase=phase, rank=rank)
    answers = []
    caller = threading.Thread(target=lambda: answers.append(engine.post(path, body).status))
    caller.start()
    until(f"{phase} hangs", lambda: engine.get("/miniengine/faults").ok()["faults"][0]["fired"] == [rank])
    equal(answers, [], "no answer")
    equal(engine.get("/health").status, 200, "health looks well")
    engine.call("DELETE", "/miniengine/faults").ok()
    caller.join()
    equal(answers, [200], phase)


def check_hang_in_every_phase_until_cleared():
    with Engine("v1", 2, options=ALLOWED) as engine:
        for phase, (path, body) in _phase_calls(engine).items():
            _hangs_until_cleared(engine, phase, path, body)
        _serves(engine, "v2")


def check_hang_for_a_time():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="hang", phase="start", rank=1, ms=120)
        began = time.monotonic()
        engine.post("/start_weight_update").ok()
        equal(time.monotonic() - began >= 0.12, True, "as long as asked")


def check_slow():
    with Engine("v1", options=ALLOWED) as engine:
        engine.fault(kind="slow", phase="resume", ms=100)
        began = time.monotonic()
        engine.post("/resume").ok()
        equal(time.monotonic() - began >= 0.1, True, "slower")


def _is_dying(engine, stream):
    """What runs gets an error, then the server ends, ranks and all."""
    stream.end()
    equal(stream.error is not None, True, "the stream broke off")
    equal(engine.process.wait(DEADLINE_S), 1, "the server ended")


def check_die_in_a_phase():
    for ranks, rank, phase in ((1, 0, "apply"), (2, 0, "start"), (2, 1, "apply"), (2, 1, "stage"), (2, 1, "pause")):
        with Engine("v1", ranks, options=SLOW) as engine:
            stream = Stream(engine, prompt("river"), 1900).wait_for(3)
            engine.fault(kind="die", phase=phase, rank=rank)
            try:
                for name, (path, body) in list(_phase_calls(engine).items())[:4]:
                    path = "/resume" if name == "pause" and phase != "pause" else path
                    if engine.post(path, body).status == 500:
                        break
            except (OSError, http.client.HTTPException):
                pass  # It may be gone before it has answered.
            _is_dying(engine, stream)


def check_die_at_a_tensor():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="die", phase="apply", rank=1, tensor=20)
        engine.post("/start_weight_update").ok()
        swap = Swap(engine, "v2")
        swap.good(swap.stage())
        try:
            equal(engine.post("/finish_weight_update").status, 500, "the call fails")
        except (OSError, http.client.HTTPException):
            pass
        equal(engine.process.wait(DEADLINE_S), 1, "the server ended")


def check_a_killed_rank_ends_the_engine():
    with Engine("v1", 2, options=SLOW) as engine:
        stream = Stream(engine, prompt("river"), 1900).wait_for(3)

        os.kill(engine.children()[0], 9)
        _is_dying(engine, stream)


def check_lies_answer_and_do_nothing():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="lie", phase="pause")
        equal(engine.post("/pause?mode=keep").ok(), {"status": "paused"}, "it says")
        equal(engine.get("/is_paused").ok(), {"is_paused": False}, "it is not")
        engine.fault(kind="lie", phase="label")
        equal(engine.post("/update_weight_version", {"new_version": "v2"}).status, 200, "it says")
        equal(engine.get("/weight_info").ok(), {"weight_version": "default"}, "it is not")
        engine.fault(kind="lie", phase="stage")
        swap = Swap(engine, "v2")
        equal(swap.stage(), [None, None], "200, and nothing staged")
        engine.fault(kind="lie", phase="apply")
        swap.good(swap.stage())
        equal(swap.finish(), [None, None], "200, and nothing applied")
        _serves(engine, "v1")
        engine.fault(kind="lie", phase="readback", rank=0)
        found = engine.rpc("baton_readback", landing=swap.folder, version_digest=swap.digest)
        equal([report["readback"]["ok"] for report in found], [True, False], "rank 0 lies, rank 1 does not")
        engine.post("/pause?mode=keep").ok()
        engine.fault(kind="lie", phase="resume")
        equal(engine.post("/resume").ok(), {"status": "resumed"}, "it says")
        equal(engine.get("/is_paused").ok(), {"is_paused": True}, "it is not")
        engine.post("/resume").ok()


def check_a_reset_that_lies_leaves_the_stale_prefix():
    with Engine("v1", options=ALLOWED) as engine:
        engine.tokens(prompt("long"))
        engine.fault(kind="lie", phase="reset")
        engine.post("/reset_prefix_cache").ok()
        engine.tokens(prompt("long"))
        equal(engine.metric("vllm:prefix_cache_hits_total") > 0, True, "still there")


def check_one_rank_that_lies_makes_a_mix():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="lie", phase="apply", rank=1)
        swap = Swap(engine, "v2")
        swap.good(swap.stage())
        equal([a and a["ok"] for a in swap.finish()], [True, None], "rank 1 has nothing to tell")
        _is_neither(engine)


def check_lost_tensors_are_told_by_nobody_but_the_readback():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="lose")
        equal([a["ok"] for a in _outcomes(engine)], [True, True], "all is said to be well")
        _is_neither(engine)
        folder, digest = landing("v2")
        for report in engine.rpc("baton_readback", landing=folder, version_digest=digest):
            equal(report["readback"]["ok"], False, "an honest look tells")
            equal(len(report["readback"]["mismatched"]) > 15, True, "half of them")


def check_poison_stays_and_kills():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="poison", rank=1)
        engine.fault(kind="fail", phase="apply", rank=1, tensor=9)
        applied = _outcomes(engine)
        equal([a["restored"] for a in applied], [True, False], "rank 1 was left as it was")
        equal(engine.rpc("baton_report")[1]["resident"], None, "it must be recreated")
        again = Swap(engine, "v2").stage()
        equal((again[0]["ok"], again[1]["error"]["code"]), (True, "LOAD_FAILED"), "the old error comes back")
        equal(engine.generate(prompt("river"), 3).status, 500, "the next request kills it")
        equal(engine.process.wait(DEADLINE_S), 1, "ended")


def check_poison_may_go_on_serving_a_mix():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="poison", rank=1, serves=True)
        engine.fault(kind="fail", phase="apply", rank=1, tensor=40)
        _outcomes(engine)
        equal(engine.get("/health").status, 200, "health")
        _is_neither(engine)


def check_late_answers_are_one_call_behind():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="late", rank=1, phase="start")
        engine.post("/start_weight_update").ok()
        engine.post("/collective_rpc", {"method": "compute_weight_checksums"}).ok()
        found = engine.rpc("check_health")
        equal((found[0], isinstance(found[1], dict)), (None, True), "rank 1 answers the call before")
        _serves(engine, "v1")


def check_a_raised_error_shifts_the_answers():
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="raise", phase="start")
        got = engine.post("/start_weight_update")
        equal((got.status, "Worker failed with error" in got.json()["error"]["message"]), (500, True), "raised")
        stale = engine.post("/pause?mode=keep")
        equal((stale.status, stale.json()["error"].startswith("Failed to pause generation: ")), (500, True), "stale")
        equal(engine.get("/is_paused").ok(), {"is_paused": True}, "and yet it is paused")
    with Engine("v1", 2, options=ALLOWED) as engine:
        engine.fault(kind="raise", phase="start", rank=1)
        equal(engine.post("/start_weight_update").status, 500, "the last rank's error")
        equal(engine.rpc("check_health"), [None, None], "keeps step")


def check_faults_from_the_command_line():
    fault = '{"kind":"fail","phase":"apply","tensor":1}'
    with Engine("v1", options=("--fault", fault)) as engine:
        equal([a["ok"] for a in _outcomes(engine)], [False], "fails")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
