"""Who uses the cluster while it suffers: trainers that publish, an operator that acts. Each says a thing again until it has an answer."""

import json
import pathlib
import threading
import time
import uuid

import cluster as rig
import fleet

VERSIONS = ("v1", "v2", "v3")
GIVE_UP_S = 90
TRANSIENT = (3, 4, 124)  # batonctl's exit codes of what may come true later.


class Workload:
    """What was asked and answered in all runs of one cluster, on one clock."""

    def __init__(self, cluster):
        self.cluster, self.lock = cluster, threading.Lock()
        self.publishes, self.intents = [], []
        self.cordoned, self.held = set(), False

    # --- trainers ---

    def publish(self, agent, story):
        with self.lock:
            step = len(self.publishes) + 1
            made = {"step": step, "request": uuid.uuid4().hex, "version": VERSIONS[step % 3], "began": time.monotonic(), "acked": None, "seq": None}
            self.publishes.append(made)
        words = ["publish", fleet.DATA / made["version"], "--model", self.cluster.model, "--optimizer-step", step, "--request-id", made["request"], "-o", "json"]
        code, out, err = self.insist(words, lambda code, _: code != 0, story, agent=agent)
        if code != 0:
            raise AssertionError(f"publish {step} through {agent} never came through: exit {code}: {err}")
        told = json.loads(out)
        made.update(acked=time.monotonic(), seq=int(told["seq"]), digest=told["digest"])
        story.tell(f"publish {step} ({made['version']}) through {agent} is version {made['seq']}, after {made['acked'] - made['began']:.2f} s")

    def insist(self, words, again, story, **options):
        """The same words, with the same request id, until again(code, err) is false or everybody has had enough."""
        is_over, told = self.cluster.store_clock.deadline(GIVE_UP_S * fleet.PATIENCE), ""
        while True:
            code, out, err = self.cluster.try_run(*words, **options)
            late = is_over()
            if not again(code, err) or late:
                return code, out, f"{err.strip()} ({is_over.told()})" if late else err
            if err != told:
                story.tell(f"{words[0]}: exit {code}: {err.strip()[:160]}")
            told = err
            time.sleep(0.2)

    def train(self, rng, until, story):
        while time.monotonic() < until:
            self.publish(rng.choice(sorted(self.cluster.agents)), story)
            time.sleep(rng.uniform(0.5, 4))

    # --- the operator ---

    def act(self, what, target, story):
        """One intent, and what is told of the model and the groups after it was acknowledged."""
        words = {
            "hold": ["hold", "model/m", "--reason", "chaos"],
            "resume": ["resume", "model/m"],
            "cordon": ["cordon", f"group/{target}", "--reason", "chaos"],
            "uncordon": ["uncordon", f"group/{target}"],
            "retry": ["roll", "retry", "m"],
            "undo": ["roll", "undo", "m"],
        }[what]
        may_refuse = what in ("retry", "undo")
        made = {"what": what, "target": target, "request": uuid.uuid4().hex, "began": time.monotonic(), "acked": None, "refused": False}
        self.intents.append(made)
        code, _, err = self.insist(
            [*words, "--request-id", made["request"]], lambda code, _: code in TRANSIENT or code != 0 and not may_refuse, story
        )
        if code in TRANSIENT or code != 0 and not may_refuse:
            raise AssertionError(f"{what} {target or ''} never came through: exit {code}: {err}")
        made.update(acked=time.monotonic(), refused=code != 0, read=self.read(story))
        story.tell(f"{what} {target or ''} {'refused: ' + err.strip()[:120] if made['refused'] else 'done'} after {made['acked'] - made['began']:.2f} s")

    def read(self, story):
        found = {}
        for kind in ("models", "groups"):
            code, out, err = self.insist(["get", kind, "-o", "json"], lambda code, _: code != 0, story)
            if code != 0:
                raise AssertionError(f"get {kind} never came through: exit {code}: {err}")
            found[kind] = json.loads(out)["items"]
        return {
            "held": bool(found["models"][0]["status"].get("held")),
            "cordoned": sorted(g["meta"]["name"] for g in found["groups"] if g.get("cordoned")),
        }

    def operate(self, rng, until, story):
        groups = sorted(self.cluster.parts)
        while time.monotonic() < until:
            what = rng.choice(["cordon", "cordon", "uncordon", "hold", "retry", "undo"])
            target = rng.choice(groups) if "cordon" in what else None
            if what == "uncordon":
                target = next(iter(sorted(self.cordoned)), target)
            self.act(what, target, story)
            time.sleep(rng.uniform(0.3, 2))
            if what == "cordon":
                self.cordoned.add(target)
            elif what == "uncordon":
                self.cordoned.discard(target)
            elif what in ("hold", "undo"):
                self.act("resume", None, story)

    def lift(self, out, story):
        """One cordon at most stays, of a group that serves: one of 'out' would not come back under it."""
        stays = sorted(self.cordoned - out)[:1]
        for target in sorted(self.cordoned - set(stays)):
            self.act("uncordon", target, story)
            self.cordoned.discard(target)

    def names(self):
        return {p["seq"]: p["version"] for p in self.publishes if p["seq"]}

    def digests(self):
        return {p["version"]: p["digest"] for p in self.publishes if p["seq"]}

    def newest(self):
        return max(self.names())
