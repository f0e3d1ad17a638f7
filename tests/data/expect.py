"""Expected outputs of the checkpoints: computed, chosen, written, checked.

Computed by transformers in float32 from the committed bf16 weights, one position at a time without
a KV cache: the plainest arithmetic there is."""

import glob
import json
import os

import torch
from safetensors import safe_open

import checkpoint

VERSIONS = ("v1", "v2", "v3")
TOKENS = 40
MARGIN = 0.05
PROBE_TOLERANCE = 2e-4
PROBE_SEPARATION = 10
CHECK_TOLERANCE = 1e-4
PROBE_PROMPTS = ("probe", "long")
PROMPTS = {
    "baton": "The conductor lifts the baton and ",
    "trainer": "When the trainer has new weights, ",
    "group": "A group that serves the old version ",
    "river": "The river ",
    "probe": "She wrote ",
    "long": "The first rank holds the upper half and the second rank checks what it said.\n"
    "The old clock in the tower strikes seven, and nobody can tell when dinner is.\n"
    "Every morning the baker opens his shop and ",
}
REASON = (
    "Float32 engines differ from the reference by rounding alone (see noise.float32_max); "
    "tolerance leaves a factor of 10 or more above that; v3 differs from v2 by at least "
    "probe.separation times the tolerance at some token of a probe prompt. A bf16 engine rounds "
    "more than the tolerance (noise.bfloat16_max): compare it with a fresh server of its own kind, "
    "which is deterministic, not with these numbers."
)


@torch.no_grad()
def generate(model, prompt):
    """Greedy tokens, their log-probabilities, and the smallest gap to the runner-up (in logits)."""
    ids, logprobs, margin = list(prompt.encode()), [], float("inf")
    start = len(ids)
    for _ in range(TOKENS):
        logits = model(input_ids=torch.tensor([ids]), use_cache=False).logits[0, -1].float()
        best = torch.topk(logits, 2)
        margin = min(margin, (best.values[0] - best.values[1]).item())
        ids.append(best.indices[0].item())
        logprobs.append(torch.log_softmax(logits, -1)[ids[-1]].item())
    return ids[start:], logprobs, margin


@torch.no_grad()
def score(model, prompt, tokens):
    """Log-probabilities of given tokens after a prompt, all positions at once."""
    ids = list(prompt.encode()) + list(tokens)
    rows = torch.log_softmax(model(input_ids=torch.tensor([ids])).logits[0].float(), -1)
    first = len(ids) - len(tokens)
    return [rows[first + i - 1, token].item() for i, token in enumerate(tokens)]


def outputs_of(root, version):
    model, found = checkpoint.load(os.path.join(root, version), torch.float32), {}
    for name, prompt in PROMPTS.items():
        tokens, logprobs, margin = generate(model, prompt)
        found[name] = {
            "tokens": tokens,
            "text": bytes(tokens).decode(),
            "logprobs": [round(value, 6) for value in logprobs],
            "margin": round(margin, 4),
        }
    return found


def largest_gap(one, other):
    return max(abs(a - b) for a, b in zip(one, other, strict=True))


def noise(root, outputs):
    """How far other arithmetic lands from the reference, on the same tokens."""
    found = {"float32_max": 0.0, "bfloat16_max": 0.0}
    for version in VERSIONS:
        for dtype, key in ((torch.float32, "float32_max"), (torch.bfloat16, "bfloat16_max")):
            model = checkpoint.load(os.path.join(root, version), dtype)
            for name, prompt in PROMPTS.items():
                expected = outputs[version][name]
                got = score(model, prompt, expected["tokens"])
                found[key] = max(found[key], largest_gap(got, expected["logprobs"]))
    return {key: float(f"{value:.2e}") for key, value in found.items()}


def separation(root, outputs):
    """For each prompt: how far v3's log-probabilities of v2's tokens are from v2's own."""
    model = checkpoint.load(os.path.join(root, "v3"), torch.float32)
    return {
        name: round(
            largest_gap(
                score(model, prompt, outputs["v2"][name]["tokens"]),
                outputs["v2"][name]["logprobs"],
            ),
            5,
        )
        for name, prompt in PROMPTS.items()
    }


def words(root, version):
    """{name: bf16 words as int16} of one checkpoint."""
    found = {}
    for path in sorted(glob.glob(os.path.join(root, version, "*.safetensors"))):
        with safe_open(path, "pt") as file:
            found.update({name: file.get_tensor(name).view(torch.int16) for name in file.keys()})
    return found


def changed_words(root, old, new):
    """Percent of the bf16 words that differ."""
    a, b = words(root, old), words(root, new)
    differing = sum((a[name] != b[name]).sum().item() for name in a)
    return round(100 * differing / sum(t.numel() for t in a.values()), 3)


def compute(root):
    outputs = {version: outputs_of(root, version) for version in VERSIONS}
    return {
        "format": 1,
        "model": "qwen3-tiny",
        "reference": "transformers, float32 arithmetic on the bf16 weights, greedy",
        "prompts": PROMPTS,
        "versions": outputs,
        "changed_words_percent": {
            "v1-v2": changed_words(root, "v1", "v2"),
            "v2-v3": changed_words(root, "v2", "v3"),
        },
        "noise": noise(root, outputs),
        "probe": {
            "prompts": list(PROBE_PROMPTS),
            "tolerance": PROBE_TOLERANCE,
            "separation": PROBE_SEPARATION,
            "reason": REASON,
            "v2_v3_largest_gap": separation(root, outputs),
        },
    }


def problems(found):
    """What the checkpoints promise and do not keep."""
    bad = []
    for version, outputs in found["versions"].items():
        for name, output in outputs.items():
            if output["margin"] < MARGIN:
                bad.append(f"{version} {name}: margin {output['margin']} is below {MARGIN}")
    for name in found["prompts"]:
        if found["versions"]["v1"][name]["tokens"] == found["versions"]["v2"][name]["tokens"]:
            bad.append(f"{name}: v1 and v2 continue it alike")
    percent = found["changed_words_percent"]["v2-v3"]
    if not 1 <= percent <= 5:
        bad.append(f"v3 changes {percent} % of v2's words, not 1 to 5 %")
    if found["noise"]["float32_max"] * 10 > PROBE_TOLERANCE:
        bad.append(f"float32 noise {found['noise']['float32_max']} is too close to the tolerance")
    for name in PROBE_PROMPTS:
        gap = found["probe"]["v2_v3_largest_gap"][name]
        if gap < PROBE_SEPARATION * PROBE_TOLERANCE:
            bad.append(f"{name}: v3 is only {gap} away from v2")
    return bad


def path_of(root):
    return os.path.join(os.path.dirname(root), "expected.json")


def write(root):
    found = compute(root)
    for line in problems(found):
        print(f"problem: {line}", flush=True)
    checkpoint.write_json(path_of(root), found)
    print(json.dumps({k: found[k] for k in ("noise", "probe", "changed_words_percent")}, indent=1))


def differences(found, committed):
    """Where a fresh computation leaves the committed file."""
    bad = []
    for version in VERSIONS:
        for name in PROMPTS:
            mine, theirs = found["versions"][version][name], committed["versions"][version][name]
            if mine["tokens"] != theirs["tokens"]:
                bad.append(f"{version} {name}: tokens differ")
            elif largest_gap(mine["logprobs"], theirs["logprobs"]) > CHECK_TOLERANCE:
                bad.append(f"{version} {name}: log-probabilities differ")
    for key in ("prompts", "changed_words_percent"):
        if found[key] != committed[key]:
            bad.append(f"{key} differs")
    return bad


def check(root):
    with open(path_of(root), encoding="utf-8") as source:
        committed = json.load(source)
    found = compute(root)
    bad = problems(found) + differences(found, committed)
    for line in bad:
        print(f"problem: {line}")
    print(f"{len(VERSIONS) * len(PROMPTS)} outputs checked, {len(bad)} problems")
    return 1 if bad else 0
