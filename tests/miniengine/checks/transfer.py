"""Weight transfer, engine contract section 2: stage, apply, report, read back, fences, refusals."""

import json
import os
import shutil
import struct

from harness import DEADLINE_S, Engine, Swap, checkpoint, close, copy_landing, equal, expected, landing, prompt, seal

SHARD = "model.safetensors"


def _serves(engine, version):
    """The engine gives exactly this version's outputs."""
    salt = f"probe-{Swap.step}-{engine.metric('vllm:prefix_cache_queries_total')}"
    for name in ("river", "long"):
        tokens, logprobs = expected(version, name)
        got = engine.tokens(prompt(name), len(tokens), cache_salt=salt)
        equal(got[0], tokens, f"{version} {name}")
        close(got[1], logprobs, 1e-4, f"{version} {name}")


def _swaps(ranks):
    with Engine("v1", ranks) as engine:
        equal([r["resident"] for r in engine.rpc("baton_report")], [None] * ranks, "nothing yet")
        engine.post("/init_weight_transfer_engine", {"init_info": {"protocol": 1}}).ok()
        for version in ("v2", "v3", "v1"):
            Swap(engine, version).run()
            _serves(engine, version)
            equal(engine.get("/weight_info").ok(), {"weight_version": version}, "label")
            for rank, report in enumerate(engine.rpc("baton_report")):
                equal((report["protocol"], report["rank"], report["world_size"]), (1, rank, ranks), "who")
                equal(report["resident"], {"version_digest": landing(version)[1], "level": "resident"}, "resident")
                equal((report["initialized"], report["session"]), (True, False), "session")
                equal(report["readback"]["mismatched"], [], "read back")
                equal(report["readback"]["tensors"] > 40, True, "all tensors")


def check_swaps_on_one_rank():
    _swaps(1)


def check_swaps_on_two_ranks():
    _swaps(2)


def check_staging_touches_nothing():
    with Engine("v1", 2) as engine:
        swap = Swap(engine, "v2")
        swap.good(swap.stage())
        equal([r["session"] for r in engine.rpc("baton_report")], [True, True], "session")
        _serves(engine, "v1")
        swap.good(swap.finish())
        engine.post("/reset_prefix_cache").ok()
        _serves(engine, "v2")


def check_what_was_staged_is_applied_even_if_the_directory_goes():
    with Engine("v1") as engine:
        folder = copy_landing("v2", "gone")
        swap = Swap(engine, "v2", folder=folder)
        swap.good(swap.stage())
        shutil.rmtree(folder)
        swap.good(swap.finish())
        _serves(engine, "v2")


def check_finish_without_staging_does_nothing():
    with Engine("v1", 2) as engine:
        engine.post("/finish_weight_update").ok()
        engine.post("/start_weight_update").ok()
        engine.post("/finish_weight_update", {"weight_version": "x"}).ok()
        equal([r["applied"] for r in engine.rpc("baton_report")], [None, None], "nothing applied")
        _serves(engine, "v1")


def check_staged_is_consumed_by_apply():
    with Engine("v1") as engine:
        swap = Swap(engine, "v2").run()
        Swap(engine, "v3").run()
        engine.post("/start_weight_update").ok()
        swap.finish()
        _serves(engine, "v3")


def check_readback_tells_which_tensors_differ():
    with Engine("v2", 2) as engine:
        for version, right in (("v2", True), ("v1", False), ("v3", False)):
            folder, digest = landing(version)
            for report in engine.rpc("baton_readback", landing=folder, version_digest=digest):
                found = report["readback"]
                equal((found["ok"], found["error"], found["level"]), (right, None, "resident"), version)
                equal(len(found["mismatched"]) == 0, right, version)
        folder, _ = landing("v1")
        for report in engine.rpc("baton_readback", landing=folder, version_digest="0" * 32):
            equal(report["readback"]["error"]["code"], "DIGEST_MISMATCH", "another digest")
        _serves(engine, "v2")


def check_lower_fences_do_nothing():
    with Engine("v1", 2) as engine:
        low, high = Swap(engine, "v2"), Swap(engine, "v3")
        high.good(high.stage())
        low.stage()
        equal([r["staged"]["version_digest"] for r in engine.rpc("baton_report")], [high.digest] * 2, "kept")
        equal([r["fence"] for r in engine.rpc("baton_report")], [high.fence] * 2, "highest")
    with Engine("v1", 2) as engine:
        low = Swap(engine, "v2")
        low.good(low.stage())
        for report in engine.rpc("baton_fence", fence=[1, 1, 2, 0, 0]):
            equal((report["staged"]["ok"], report["staged"]["error"]["code"]), (False, "FENCED"), "dropped")
        equal(low.finish(), [None, None], "nothing left to apply")
        refused = low.stage()
        equal({outcome["error"]["code"] for outcome in refused}, {"FENCED"}, "late")
        _serves(engine, "v1")


def _refusal(engine, folder, digest, code, tensor=None):
    swap = Swap(engine, "v2", folder=folder, digest=digest)
    for outcome in swap.stage():
        equal((outcome["ok"], outcome["error"]["code"]), (False, code), outcome)
        if tensor is not None:
            equal(outcome["error"]["tensor"], tensor, outcome)
    swap.finish()
    _serves(engine, "v1")


def _read_shard(path):
    with open(path, "rb") as file:
        size = struct.unpack("<Q", file.read(8))[0]
        return json.loads(file.read(size)), file.read()


def _write_shard(path, header, data):
    text = json.dumps(header).encode()
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text + data)


def _changed(name, change):
    """A sealed landing of v3 whose header 'change' has edited; it may move data."""
    folder = copy_landing("v3", name)
    header, data = _read_shard(os.path.join(folder, SHARD))
    data = change(header, data) or data
    _write_shard(os.path.join(folder, SHARD), header, data)
    return folder, seal(folder)


def _cut(header, data, name):
    """Removes one tensor and closes the gap."""
    begin, end = header.pop(name)["data_offsets"]
    for entry in header.values():
        if "data_offsets" in entry and entry["data_offsets"][0] >= end:
            entry["data_offsets"] = [offset - (end - begin) for offset in entry["data_offsets"]]
    return data[:begin] + data[end:]


def check_refused_landings_name_the_tensor():
    norm, up = "model.norm.weight", "model.layers.1.mlp.up_proj.weight"

    def rename(header, _data):
        header["model.other.weight"] = header.pop(norm)

    def add(header, data):
        header["model.extra.weight"] = {"dtype": "BF16", "shape": [1], "data_offsets": [len(data), len(data) + 2]}
        return data + b"\0\0"

    def reshape(header, _data):
        header[up]["shape"] = header[up]["shape"][::-1]

    def recast(header, _data):
        header[up]["dtype"] = "F16"

    with Engine("v1", 2) as engine:
        _refusal(engine, *_changed("cut", lambda h, d: _cut(h, d, up)), "MISSING_TENSOR", up)
        _refusal(engine, *_changed("rename", rename), "MISSING_TENSOR", norm)
        _refusal(engine, *_changed("add", add), "UNEXPECTED_TENSOR", "model.extra.weight")
        _refusal(engine, *_changed("reshape", reshape), "SHAPE_MISMATCH", up)
        _refusal(engine, *_changed("recast", recast), "DTYPE_MISMATCH", up)


def check_damaged_landings_are_refused():
    def flipped(name, sealed_again):
        folder = copy_landing("v3", name)
        path = os.path.join(folder, SHARD)
        with open(path, "r+b") as file:
            file.seek(-1000, os.SEEK_END)
            byte = file.read(1)[0]
            file.seek(-1000, os.SEEK_END)
            file.write(bytes([byte ^ 1]))
        return folder, seal(folder) if sealed_again else landing("v3")[1]

    with Engine("v1", 2) as engine:
        _refusal(engine, *flipped("flip", False), "DIGEST_MISMATCH")
        folder, digest = flipped("flip-sealed", True)
        equal(digest != landing("v3")[1], True, "another version")
        _refusal(engine, folder, landing("v3")[1], "DIGEST_MISMATCH")
        _refusal(engine, os.path.join(folder, "none"), digest, "LANDING_UNREADABLE")
        _refusal(engine, checkpoint("v2"), digest, "LANDING_UNREADABLE")
        truncated = copy_landing("v3", "short")
        with open(os.path.join(truncated, SHARD), "r+b") as file:
            file.truncate(5000)
        _refusal(engine, truncated, digest, "LANDING_UNREADABLE")


def check_bad_arguments_are_recorded_not_raised():
    folder, digest = landing("v2")
    good = {"landing": folder, "version_digest": digest, "fence": [1, 1, 1, 1, 1]}
    rows = [{**good, "landing": 3}, {**good, "landing": "relative"}, {**good, "version_digest": "XY"},
            {**good, "fence": [1, 2]}, {**good, "fence": [1, 1, 1, 1, -1]}, {**good, "more": 1}, {"landing": folder}]
    with Engine("v1", 2) as engine:
        for row in rows:
            engine.post("/start_weight_update").ok()
            engine.post("/update_weights", {"update_info": row}).ok()
            for report in engine.rpc("baton_report"):
                equal(report["staged"]["error"]["code"], "BAD_REQUEST", row)
            engine.post("/finish_weight_update").ok()
        equal(engine.post("/update_weights", {}).json()["error"]["param"], "body.update_info", "400")
        equal(engine.post("/init_weight_transfer_engine").json()["error"]["param"], "body.init_info", "400")
        equal(engine.post("/update_weights", "[").json()["error"]["type"], "json_invalid", "400")
        engine.post("/init_weight_transfer_engine", {"init_info": {"protocol": 2}}).ok()
        equal([r["initialized"] for r in engine.rpc("baton_report")], [False, False], "another protocol")
        _serves(engine, "v1")


def check_ranks_that_staged_different_things_apply_nothing():
    folder, digest = landing("v2")
    good = {"landing": folder, "version_digest": digest, "fence": [1, 1, 1, 1, 1]}
    other = {"landing": landing("v3")[0], "version_digest": landing("v3")[1], "fence": [1, 1, 1, 1, 1]}
    with Engine("v1", 2) as engine:
        for infos in ([good, other], [good], [good, {**good, "fence": [1, 1, 1, 1, 2]}]):
            engine.post("/start_weight_update").ok()
            engine.post("/update_weights", {"update_info": infos}).ok()
            engine.post("/finish_weight_update").ok()
            for report in engine.rpc("baton_report"):
                equal((report["applied"]["ok"], report["applied"]["restored"]), (False, True), infos)
            good["fence"] = other["fence"] = [1, 1, 1, 2, 1]
            _serves(engine, "v1")


def check_checksums_tell_ranks_and_versions_apart():
    with Engine("v1", 2) as engine:
        def sums():
            return engine.post("/weight_checker", {"action": "checksum"}).ok()
        first = sums()
        norm = "dp0:pp0:pcp0:tp{}:model.norm.weight"
        equal(first[norm.format(0)], first[norm.format(1)], "norms are whole on every rank")
        equal(engine.post("/weight_checker", {"action": "compare", "baseline": first}).ok()["match"], True, "same")
        Swap(engine, "v2").run()
        found = engine.post("/weight_checker", {"action": "compare", "baseline": first}).ok()
        equal((found["match"], len(found["mismatches"])), (False, len(first)), "all differ")
        equal(engine.post("/weight_checker", {"action": "compare"}).status, 400, "no baseline")
        equal(engine.post("/weight_checker", {"action": "other"}).status, 400, "unknown action")


def check_reload_is_possible_and_a_bad_path_is_deadly():
    with Engine("v1", 2) as engine:
        equal(engine.rpc("reload_weights", weights_path=checkpoint("v2")), [None, None], "reload")
        engine.post("/reset_prefix_cache").ok()
        _serves(engine, "v2")
        equal(engine.get("/weight_info").ok(), {"weight_version": "default"}, "no label")
        bad = engine.post("/collective_rpc", {"method": "reload_weights", "kwargs": {"weights_path": "/nonexistent"}})
        equal(bad.status, 500, "bad path")
        sums = engine.post("/collective_rpc", {"method": "compute_weight_checksums"})
        equal("Cannot copy out of meta tensor" in sums.body, True, "unfinished")
        equal(engine.generate(prompt("river"), 3).status, 500, "the next request kills it")
        equal(engine.process.wait(DEADLINE_S), 1, "and it ends")


def check_calls_and_labels():
    with Engine("v1", 2) as engine:
        equal(engine.rpc("check_health"), [None, None], "health")
        equal(engine.post("/collective_rpc", {}).json()["error"]["message"], "Missing 'method' in request body", "400")
        equal(engine.post("/update_weight_version", {"new_version": "a"}).ok(), {"success": True, "new_version": "a"}, "")
        equal(engine.post("/update_weight_version", {}).status, 400, "no label")
        equal(engine.post("/finish_weight_update", {"weight_version": 3}).status, 400, "no string")
        equal(engine.get("/weight_info").ok(), {"weight_version": "a"}, "label")
    with Engine("v1", options=("--weight-transfer-backend", "none")) as engine:
        got = engine.post("/start_weight_update")
        equal((got.status, "Weight transfer not configured" in got.body), (500, True), "no backend")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
