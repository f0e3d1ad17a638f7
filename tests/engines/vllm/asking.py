"""What every test asks a server, and where answers of fresh servers are kept between modules.

A server that was swapped must answer to the bit what a fresh one of as many ranks does: same kernels,
same weights.  fleet_test notes what its fresh servers say in the file BATON_VLLM_FRESH; live_test then
need not start any of its own."""

import itertools
import json
import os

MODEL = "default"
PROMPTS = (
    "The conductor lifts the baton and ",
    "She wrote ",
    "The first rank holds the upper half and the second rank checks what it said.\n" * 2,
)
_salts = itertools.count()


def body(prompt, tokens=16):
    """A completion that no cache can answer."""
    return {"model": MODEL, "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 0,
            "ignore_eos": True, "cache_salt": f"salt {os.getpid()} {next(_salts)}"}  # fmt: skip


def said(completion):
    """[text, log-probabilities] of an answer."""
    choice = completion["choices"][0]
    return [choice["text"], choice["logprobs"]["token_logprobs"]]


def _file():
    return os.environ.get("BATON_VLLM_FRESH", "")


def noted():
    """{(ranks, version): answers to PROMPTS}"""
    if not os.path.exists(_file()):
        return {}
    with open(_file(), encoding="utf-8") as source:
        return {(ranks, version): answers for ranks, version, answers in json.load(source)}


def note(ranks, version, answers):
    if _file():
        found = {**noted(), (ranks, version): answers}
        with open(_file(), "w", encoding="utf-8") as out:
            json.dump([[*key, value] for key, value in found.items()], out)
