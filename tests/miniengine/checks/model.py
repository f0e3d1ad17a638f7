"""The model itself: outputs, streaming, batching, the prefix cache, refusals."""

import os
import shutil
import signal
import tempfile
from concurrent.futures import ThreadPoolExecutor

from harness import Engine, Setup, Stream, close, equal, expected, prompt, terminate, until

TOLERANCE = 1e-4


def _outputs(version, ranks):
    with Engine(version, ranks) as engine:
        for name in Setup.expected["prompts"]:
            tokens, logprobs = expected(version, name)
            got = engine.tokens(prompt(name), len(tokens))
            equal(got[0], tokens, f"{version} {name} tokens")
            close(got[1], logprobs, TOLERANCE, f"{version} {name}")


def check_v1_equals_the_reference():
    _outputs("v1", 1)


def check_v2_equals_the_reference():
    _outputs("v2", 1)


def check_v3_equals_the_reference():
    _outputs("v3", 1)


def check_two_ranks_equal_the_reference():
    for version in ("v1", "v2", "v3"):
        _outputs(version, 2)


def check_a_stream_equals_the_whole_answer():
    with Engine("v2") as engine:
        stream = Stream(engine, prompt("baton"), 40, stream_options={"include_usage": True}).end()
        equal(stream.ids, expected("v2", "baton")[0], "tokens")
        equal(stream.text, Setup.expected["versions"]["v2"]["baton"]["text"], "text")
        equal((stream.reason, stream.done, stream.error), ("length", True, None), "end")
        equal(stream.response.getheader("content-type").split(";")[0], "text/event-stream", "type")


def check_token_ids_are_a_prompt_too():
    with Engine("v1") as engine:
        equal(engine.tokens(list(prompt("river").encode())), engine.tokens(prompt("river")), "ids")


def check_many_at_once_get_what_each_gets_alone():
    with Engine("v1", options=("--kv-blocks", "24")) as engine, ThreadPoolExecutor(16) as pool:
        names = list(Setup.expected["prompts"]) * 4
        found = list(pool.map(lambda name: engine.tokens(prompt(name)), names))
        for name, (tokens, logprobs) in zip(names, found, strict=True):
            equal(tokens, expected("v1", name)[0], name)
            close(logprobs, expected("v1", name)[1], TOLERANCE, name)


def check_the_prefix_cache_is_used_and_salted():
    with Engine("v1") as engine:
        hits = "vllm:prefix_cache_hits_total"
        cold = engine.tokens(prompt("long"))
        equal(engine.metric(hits), 0, "cold")
        equal(engine.tokens(prompt("long")), cold, "warm")
        whole = (len(prompt("long").encode()) - 1) // 16 * 16
        equal(engine.metric(hits), whole, "warm hits")
        equal(engine.tokens(prompt("long"), cache_salt="a"), cold, "salted")
        equal(engine.metric(hits), whole, "a salt is a cache of its own")
        equal(engine.post("/reset_prefix_cache").ok(), {"success": True}, "reset")
        engine.tokens(prompt("long"))
        equal(engine.metric(hits), whole, "after the reset")


def check_seeds_decide_samples():
    with Engine("v1") as engine:
        def sample(seed):
            return engine.tokens(prompt("river"), 24, temperature=1.5, seed=seed, top_p=0.95)[0]
        equal(sample(7), sample(7), "the same seed")
        equal(len({tuple(sample(seed)) for seed in range(5)}) > 1, True, "other seeds differ")


def check_logprobs_tell_the_best():
    with Engine("v1") as engine:
        choice = engine.generate(prompt("river"), 5, logprobs=3).ok()["choices"][0]
        for chosen, best in zip(choice["logprobs"]["token_logprobs"], choice["logprobs"]["top_logprobs"],
                                strict=True):
            equal(len(best), 3, "as many as asked")
            equal(max(best.values()), chosen, "greedy takes the best")
        ids = engine.generate(prompt("river"), 1, return_tokens_as_token_ids=True).ok()["choices"][0]
        equal(ids["logprobs"]["tokens"], [f"token_id:{ids['token_ids'][0]}"], "names")


def check_bad_requests_are_refused_by_name():
    rows = [
        ({"prompt": ""}, 400, "prompt"), ({"prompt": [999999]}, 400, "prompt"), ({"prompt": 3}, 400, "prompt"),
        ({"prompt": "a", "max_tokens": 0}, 400, "max_tokens"), ({"prompt": "a", "max_tokens": 2048}, 400, "max_tokens"),
        ({"prompt": "a", "temperature": -1}, 400, "temperature"), ({"prompt": "a", "logprobs": 21}, 400, "logprobs"),
        ({"prompt": "a", "n": 2}, 400, "n"), ({"prompt": "a", "stop": "x"}, 400, "stop"),
        ({"prompt": "a", "cache_salt": ""}, 400, "cache_salt"), ({"prompt": "a", "model": "other"}, 404, "model"),
    ]
    with Engine("v1") as engine:
        for body, status, param in rows:
            got = engine.post("/v1/completions", body)
            equal((got.status, got.json()["error"]["param"]), (status, param), body)
        bad = engine.post("/v1/completions", "{")
        equal((bad.status, bad.json()["error"]["type"]), (400, "json_invalid"), "no JSON")
        equal(engine.get("/nothing").json(), {"detail": "Not Found"}, "404")
        equal(engine.get("/pause").json(), {"detail": "Method Not Allowed"}, "405")
        equal(engine.post("/v1/completions", "x" * (2 << 20)).status, 413, "too long")


def check_plain_routes():
    with Engine("v1", ranks=2) as engine:
        equal(engine.get("/health").status, 200, "health")
        equal(engine.get("/version").ok(), {"version": "0.32.0"}, "version")
        equal(engine.get("/v1/models").ok()["data"][0]["id"], "m", "models")
        equal(engine.get("/get_world_size?include_dp=false").ok(), {"world_size": 2}, "world size")
        equal(engine.get("/weight_info").ok(), {"weight_version": "default"}, "label")
        info = engine.get("/server_info?config_format=json").ok()["vllm_config"]
        equal(info["weight_transfer_config"], {"backend": "baton"}, "backend")
        equal(len(info["instance_id"]), 5, "instance")


def _is_gone(pid):
    """True also for a zombie that nobody waits for."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8") as stat:
            return stat.read().rpartition(")")[2].split()[0] == "Z"
    except OSError:
        return True


def check_sigterm_drains():
    with Engine("v1", ranks=2, options=("--drain-seconds", "60")) as engine:
        children = engine.children()
        equal(len(children), 1, "one process a further rank")
        stream = Stream(engine, prompt("river"), 400).wait_for(3)
        equal(terminate(engine), 0, "exit status")
        equal((len(stream.end().ids), stream.reason), (400, "length"), "the running request ended well")
        until("the ranks are gone", lambda: _is_gone(children[0]))


def check_ranks_end_with_their_parent():
    with Engine("v1", ranks=2) as engine:
        child = engine.children()[0]
        engine.process.send_signal(signal.SIGKILL)
        until("the rank is gone", lambda: _is_gone(child))


def check_a_damaged_checkpoint_is_no_start():
    folder = tempfile.mkdtemp(dir=Setup.scratch)
    shutil.rmtree(folder)
    shutil.copytree(os.path.join(Setup.data, "qwen3-tiny", "v1"), folder)
    with open(os.path.join(folder, "model.safetensors"), "r+b") as file:
        file.truncate(100000)
    try:
        Engine(folder)
    except AssertionError as error:
        equal("model.safetensors" in str(error), True, str(error))
        return
    raise AssertionError("it started")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
