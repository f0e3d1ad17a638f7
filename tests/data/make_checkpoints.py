"""Train the small Qwen3 checkpoints of tests/data/qwen3-tiny, or write their expected outputs.

    make_checkpoints.py             train v1, v2 and v3 and write everything (about two minutes)
    make_checkpoints.py --expect    write expected.json again from the committed weights
    make_checkpoints.py --check     recompute expected.json and compare; exit 1 if anything differs

Needs PyTorch, transformers, tokenizers and safetensors (tests/engines/vllm/install.sh has them).
Training is seeded, yet its bytes depend on the machine: whoever trains again commits new weights
together with the new expected.json.
"""

import argparse
import os
import sys

import torch

import checkpoint
import expect

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "qwen3-tiny")
WINDOW = 192
BATCH = 10
LONG_STEPS = {"v1": 300, "v2": 220}
LONG_RATE = 4e-3
SHORT_STEPS = 5
SHORT_RATE = 1e-6
WARM_UP = 5
# Keeps the best token near 0.8: text stays far from ties, log-probabilities stay sensitive.
SMOOTHING = 0.2


def corpus(version):
    """The training text of one version as a tensor of token ids (a byte is its own id)."""
    with open(os.path.join(HERE, "corpus", version + ".txt"), "rb") as source:
        return torch.tensor(list(source.read()), dtype=torch.long)


def batch_of(text, rng):
    """BATCH windows of the text, which is taken as a ring."""
    starts = torch.randint(len(text), (BATCH, 1), generator=rng)
    return text[(starts + torch.arange(WINDOW + 1)) % len(text)]


def step(model, optimizer, text, rng):
    rows = batch_of(text, rng)
    logits = model(input_ids=rows[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(
        logits.flatten(0, 1), rows[:, 1:].flatten(), label_smoothing=SMOOTHING
    )
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss.item()


def set_rate(optimizer, rate):
    for group in optimizer.param_groups:
        group["lr"] = rate


def train_long(model, optimizer, version, rng):
    """Warm up, then a linear decay to a tenth."""
    text, steps = corpus(version), LONG_STEPS[version]
    for n in range(steps):
        warm = min(1.0, (n + 1) / (steps / 20))
        set_rate(optimizer, LONG_RATE * warm * (1 - 0.9 * n / steps))
        loss = step(model, optimizer, text, rng)
        if n % 60 == 0 or n == steps - 1:
            print(f"{version} step {n}: loss {loss:.3f}", flush=True)


def train_short(model, rng):
    """A few AdamW steps at 1e-6, as reinforcement learning makes them.

    The moments are first filled with WARM_UP gradients at rate zero, so that the steps that count
    have the size of steps in the middle of a run."""
    text = corpus("v3")
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.0, weight_decay=0.0)
    for n in range(WARM_UP + SHORT_STEPS):
        set_rate(optimizer, 0.0 if n < WARM_UP else SHORT_RATE)
        loss = step(model, optimizer, text, rng)
        print(f"v3 step {n - WARM_UP}: loss {loss:.3f}", flush=True)


def train():
    torch.manual_seed(618)
    rng = torch.Generator().manual_seed(618)
    model = checkpoint.new_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=LONG_RATE, weight_decay=0.01)
    for version in ("v1", "v2"):
        train_long(model, optimizer, version, rng)
        checkpoint.save(model, os.path.join(ROOT, version), shards=2 if version == "v2" else 1)
    train_short(model, rng)
    checkpoint.save(model, os.path.join(ROOT, "v3"), shards=1)


def main():
    parser = argparse.ArgumentParser(description="Make or check the checkpoints of tests/data.")
    mode = parser.add_mutually_exclusive_group()
    mode.add_argument("--expect", action="store_true", help="only write expected.json")
    mode.add_argument("--check", action="store_true", help="only compare with expected.json")
    options = parser.parse_args()
    torch.set_num_threads(min(4, os.cpu_count() or 1))
    if options.check:
        return expect.check(ROOT)
    if not options.expect:
        train()
    expect.write(ROOT)
    return 0


if __name__ == "__main__":
    sys.exit(main())
