#!/usr/bin/env python3
"""A reinforcement-learning loop on a CPU: PyTorch trains a small model by policy gradient, Baton's fleet generates, each step is published.

The reward is a rule: the share of a sample's characters that are the letter e.  Each line of stdout is one step, as JSON; with --verify the trainer
also computes each sample's log-probabilities again, under the weights of the version that the sample says it is of.
"""

import argparse
import concurrent.futures
import json
import random

import torch
import transformers

import baton

PROMPTS = ["The river ", "She wrote ", "The old clock ", "Every morning "]  # A byte is its own token in the tiny model.
LETTER = ord("e")


def parse():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checkpoint", required=True, help="directory to start from")
    parser.add_argument("--model", default="m", help="name of the model at the controller")
    parser.add_argument("--steps", type=int, default=12)
    parser.add_argument("--batch", type=int, default=32, help="samples of a step")
    parser.add_argument("--tokens", type=int, default=16)
    parser.add_argument("--lag", type=int, default=1, help="publishes that a sample may lie behind")
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--verify", action="store_true")
    return parser.parse_args()


class Trainer:
    """The policy in float32, its optimizer, and the weights of published versions as the engines have them."""

    def __init__(self, options):
        torch.manual_seed(options.seed)
        self.policy = transformers.AutoModelForCausalLM.from_pretrained(options.checkpoint, dtype=torch.float32)
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=options.rate)
        self.options, self.published = options, {}

    def logprobs(self, model, samples):
        """Of each sample's tokens: one row a sample."""
        rows = []
        for prompt, answer in samples:
            ids = torch.tensor([prompt + list(answer.token_ids)])
            scores = torch.log_softmax(model(ids).logits[0, len(prompt) - 1 : -1].float(), dim=-1)
            rows.append(scores.gather(1, ids[0, len(prompt) :, None])[:, 0])
        return rows

    def step(self, samples):
        """One step of policy gradient: reward above the batch's mean, corrected for samples of an older version."""
        rewards = torch.tensor([reward(answer) for _, answer in samples])
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-4)
        loss = torch.zeros(())
        for advantage, (_, answer), now in zip(advantages, samples, self.logprobs(self.policy, samples)):
            ratio = torch.exp(now - torch.tensor(answer.logprobs))
            loss = loss - torch.minimum(ratio * advantage, ratio.clamp(0.8, 1.2) * advantage).mean()
        self.optimizer.zero_grad()
        (loss / len(samples)).backward()
        torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
        self.optimizer.step()

    def remember(self, seq):
        """The weights of a version, rounded as they were published."""
        rounded = {name: value.detach().to(torch.bfloat16) for name, value in self.policy.state_dict().items()}
        self.published[seq] = rounded
        for old in [known for known in self.published if known < seq - 2 * self.options.lag - 2]:
            del self.published[old]

    @torch.no_grad()
    def largest_error(self, samples, before=0):
        """How far the engines' log-probabilities are from ours, each under the version of its token, or one so many versions before it."""
        judge, worst = transformers.AutoModelForCausalLM.from_config(self.policy.config, dtype=torch.float32), 0.0
        for seq in {seq for _, answer in samples for seq in answer.versions if seq - before in self.published}:
            judge.load_state_dict({name: value.float() for name, value in self.published[seq - before].items()})
            for (_, answer), ours in zip(samples, self.logprobs(judge, samples)):
                pairs = zip(answer.versions, answer.logprobs, ours.tolist())
                worst = max([worst, *[abs(theirs - mine) for version, theirs, mine in pairs if version == seq]])
        return worst


def reward(answer):
    return sum(token == LETTER for token in answer.token_ids) / max(1, len(answer.token_ids))


def generate(rollout, options, rng):
    """A batch of (prompt, answer), as many requests at once."""
    prompts = [list(rng.choice(PROMPTS).encode()) for _ in range(options.batch)]

    def ask(prompt):
        return rollout.generate(prompt, max_tokens=options.tokens, max_lag=options.lag, temperature=1.0, ignore_eos=True, seed=rng.getrandbits(31))

    with concurrent.futures.ThreadPoolExecutor(options.batch) as pool:
        return list(zip(prompts, pool.map(ask, prompts)))


def main():
    options = parse()
    rng, trainer, late = random.Random(options.seed), Trainer(options), None
    publisher = baton.Publisher(options.model)
    version = publisher.publish(trainer.policy, files=options.checkpoint, dtype="bfloat16", optimizer_step=0)
    trainer.remember(version.seq)
    with baton.Rollout(options.model) as rollout:
        for step in range(1, options.steps + 1):
            with rollout.slots(options.batch, holder="rl_loop") as slots:
                offered = generate(rollout, options, rng)
                rewards = [reward(answer) for _, answer in offered]
                late = late or offered[0]  # One of the first samples comes again in each step, as from a worker that was stuck.
                offered.append(late)
                verdicts = rollout.evaluate([answer for _, answer in offered], consumer=version.seq, max_lag=options.lag)
                good = [sample for sample, verdict in zip(offered, verdicts) if verdict.accept]
                errors = [trainer.largest_error(offered[:-1], before) for before in (0, 1)] if options.verify else None
                if len(good) > 1:  # One alone is neither better nor worse than the mean.
                    trainer.step(good)
                slots.consume(min(len(good), options.batch))
            told = {
                "step": step, "consumer": version.seq, "reward": sum(rewards) / len(rewards), "best": max(rewards), "errors": errors,
                "oldest": [answer.version for _, answer in good], "late": verdicts[-1].faults, "continued": sum(a.continued for _, a in offered[:-1]),
                "groups": sorted({group for _, answer in offered for group in answer.groups}),
            }  # fmt: skip
            version = publisher.publish(trainer.policy, dtype="bfloat16", optimizer_step=step, samples_trained=step * options.batch)
            trainer.remember(version.seq)
            print(json.dumps({**told, "published": version.seq}), flush=True)


if __name__ == "__main__":
    main()
