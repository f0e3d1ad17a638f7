"""Runs on one cluster: faults by plan while trainers, an operator and clients use it; then everything heals, and the record goes to the judge."""

import base64
import json
import random
import re
import shutil
import threading
import time
import urllib.request

import cluster as rig
import fleet
import judge
import judge_history
import nemesis
import scenario
import witness
import workload
import world

SETTLE_S = 120
CLIENT_PAUSE_S = (0.1, 0.3)


class Campaign:
    """A cluster under use; run() does one run, and returns (violations, story, settled)."""

    def __init__(self, seed, kind, seconds):
        self.seed, self.kind, self.seconds = seed, kind, seconds
        self.cluster = rig.Cluster(world.World(), world.SCRATCH)
        self.work = workload.Workload(self.cluster)
        self.clients = self.pages = self.nemesis = self.record = None
        self.struck_closed = 0  # Faults that landed while a gate was not open.
        self.rolls_before = 0  # The highest number of a roll before this run.

    def open(self):
        self.cluster.start()
        story = scenario.Story()
        self.work.publish("n0", story)
        self.cluster.wait_serving(1)
        self.pages = witness.Pages({name: self.cluster.engine_file(name, "page") for name in self.cluster.home})
        self.nemesis = nemesis.Nemesis(self.cluster, self.pages)
        engines = [(group, name, self.cluster.ports[name]) for group, parts in self.cluster.parts.items() for name in parts]
        enter = lambda engine: self.cluster.world.nodes[self.cluster.home[engine]].enter()
        self.clients = witness.Clients(engines, judge.EXPECTED["prompts"], tokens=(24,), pause=CLIENT_PAUSE_S, enter=enter)

    def close(self, keep_logs=None):
        if keep_logs:
            shutil.copytree(self.cluster.dir, keep_logs, ignore=shutil.ignore_patterns("versions", "*.sock", "etcd", "pki", "fiu-*", "ballast"), dirs_exist_ok=True)
        if self.clients:
            self.clients.stopping.set()
        if self.pages:
            self.pages.stop()
        self.cluster.close()
        self.cluster.world.close()

    # --- one run ---

    def run(self, index):
        rng = random.Random(f"{self.seed}/{self.kind}/{index}")
        plan, story, failures = nemesis.plan(rng, self.cluster, self.kind, self.seconds), scenario.Story(), []
        self.nemesis.outages, self.nemesis.healing = [], threading.Event()
        began, start = time.monotonic(), self.clients.count()
        until = began + self.seconds

        def guarded(call, *words):
            try:
                call(*words)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(f"{type(error).__name__}: {error}")

        def strike(fault):
            time.sleep(fault["after"])
            self.struck_closed += any(gate != "open" for gate, _, _ in self.pages.now.values())
            self.nemesis.land(fault, story)

        calls = [(strike, fault) for fault in plan]
        calls += [(self.work.train, random.Random(rng.random()), until, story) for _ in range(2)]
        calls += [(self.work.operate, random.Random(rng.random()), until, story)]
        threads = [threading.Thread(target=guarded, args=words) for words in calls]
        story.tell("plan: " + "; ".join(json.dumps(fault) for fault in plan))
        for thread in threads:
            thread.start()
        time.sleep(self.seconds)
        self.nemesis.healing.set()
        for thread in threads:
            thread.join()
        return self.end(began, start, story, failures)

    def end(self, began, start, story, failures):
        """Everything is healed: a last publish reaches all."""
        if failures:
            return failures, story, False
        try:
            self.work.lift({outage["group"] for outage in self.nemesis.outages}, story)
            self.work.publish(random.choice(sorted(rig.GROUPS)), story)
            settled = self.wait_settled(story)
            self.collect(began, start)
        except AssertionError as error:
            return [str(error)], story, False
        failures = judge.judge(self.record) + judge_history.judge(self.record["history"], self.record["answers"])
        return failures, story, settled

    def is_settled(self):
        groups = self.cluster.try_items("groups")
        if not groups or len(groups) != len(self.cluster.parts) or not all(d.is_alive() for d in self.cluster.daemons.values()):
            return False
        newest = self.work.newest()
        return all(
            g.get("cordoned") or int(g.get("committedSeq", 0)) == newest and g.get("gateOpen") and "ticket" not in g for g in groups
        ) and all(gate == "open" for gate, _, _ in self.pages.now.values())

    def wait_settled(self, story):
        is_over = self.cluster.store_clock.deadline(SETTLE_S * fleet.PATIENCE)
        outages = self.nemesis.outages
        while not is_over():
            for outage in outages:
                self.nemesis.look_for_end(outage)
            if all(outage["until"] for outage in outages) and self.is_settled():
                story.tell("settled")
                return True
            time.sleep(0.1)
        gates = " ".join(f"{name}={gate}/{version}" for name, (gate, version, _) in sorted(self.pages.now.items()))
        story.tell(f"not settled, {is_over.told()}; {gates}")
        for outage in outages:
            outage["until"] = outage["until"] or time.monotonic()
        return False

    # --- the record ---

    def ask_engine(self, name):
        node = self.cluster.world.nodes[self.cluster.home[name]]
        token = self.cluster.engine_file(name, "token").read_text().strip()
        return node.call(witness.look_at_engine, self.cluster.ports[name], token, judge.EXPECTED["prompts"])

    def collect(self, began, start):
        self.record = {
            "names": self.work.names(),
            "digests": self.work.digests(),
            "newest": self.work.newest(),
            "undone": set(),
            "began": began,
            "in_flight": rig.POLICY["inFlight"],
            "groups": self.cluster.parts,
            "daemons": list(self.cluster.daemons),
            "outages": self.nemesis.outages,
            "holds": self.pages.holds(began, self.nemesis.outages, (scenario.CLOSED_S + self.seconds) * fleet.PATIENCE),
            "engines": {name: self.ask_engine(name) for name in self.cluster.home},
            "answers": self.clients.since(start),
        }
        self.wait_told()
        self.record["undone"] = self.undone()
        self.record["history"] = self.history(began)
        self.rolls_before = max(int(r["number"]) for r in self.record["told"]["rolls"])

    def undone(self):
        """What may have been served in this run when an undo went back behind it: by the undos' own rolls and by when they were asked for."""
        acked = [i["acked"] for i in self.work.intents if i["what"] == "undo" and not i["refused"] and i["began"] >= self.record["began"]]
        back_to = [int(r["toSeq"]) for r in self.undo_rolls()]
        return {p["seq"] for seq, when in zip(back_to, acked) for p in self.work.publishes if p["seq"] > seq and p["began"] < when}

    def undo_rolls(self):
        """This run's, oldest first; of those before it some are forgotten by now."""
        rolls = [r for r in self.record["told"]["rolls"] if r.get("cause") == "undo" and int(r["number"]) > self.rolls_before]
        return sorted(rolls, key=lambda r: int(r["number"]))

    def wait_told(self):
        """Rolls end a moment after their last group."""
        deadline = time.monotonic() + 30 * fleet.PATIENCE
        while True:
            told = {kind: self.cluster.try_items(kind) or [] for kind in ("groups", "rolls", "versions", "models")}
            self.record.update(told=told, processes=self.cluster.processes())
            if time.monotonic() > deadline or not judge.judge_told(self.record) + judge.judge_processes(self.record):
                return
            time.sleep(0.2)

    def history(self, began):
        lives = [(name, *death) for name, daemon in self.cluster.daemons.items() for death in daemon.deaths if death[0] >= began]
        return {
            "publishes": self.work.publishes,
            "intents": self.work.intents,
            "versions": self.record["told"]["versions"],
            "undo_rolls": len(self.undo_rolls()),
            "max_unavailable": int(rig.POLICY["maxUnavailable"]),
            "gates": [(when, engine, gate, before) for when, engine, gate, _, _, before in list(self.pages.changes)],
            "began": began,
            "groups": self.cluster.parts,
            "outages": self.nemesis.outages,
            "epochs": self.epochs(),
            "leaderships": self.leaderships(),
            "deaths": [{"name": name, "code": code, "ours": ours, "served": served} for name, _, code, ours, served, _ in lives],
            "told": self.work.read(scenario.Story()),
        }

    def epochs(self):
        """Every value that etcd ever had under the epoch's key, oldest first, as etcd itself tells it."""
        key = base64.b64encode(b"/baton/epoch").decode()
        member = next(m for m in rig.MEMBERS if self.cluster.ask_etcd(m, "kv/range", {"key": key}))
        last = self.cluster.ask_etcd(member, "kv/range", {"key": key})["kvs"][0]["mod_revision"]
        body = json.dumps({"create_request": {"key": key, "start_revision": "1"}}).encode()
        url = f"http://{self.cluster.address(member)}:{rig.CLIENT_PORT}/v3/watch"
        found = []
        with urllib.request.urlopen(urllib.request.Request(url, body), timeout=20) as stream:
            while not found or found[-1]["revision"] < int(last):
                for event in json.loads(stream.readline())["result"].get("events", []):
                    value = json.loads(base64.b64decode(event["kv"]["value"]))
                    found.append({"revision": int(event["kv"]["mod_revision"]), "epoch": (int(value["generation"]), int(value["n"])), "writer": value["writer"]})
        return found

    def leaderships(self):
        """(controller, epoch) of each core that was started, in the order of each one's log."""
        found = []
        for name, daemon in self.cluster.controllers.items():
            text = daemon.log.read_text(errors="replace")
            found += [(name, (int(g), int(n))) for g, n in re.findall(r"core started generation=?\s*(\d+) epoch=?\s*(\d+)", text)]
        return found

    def tails(self):
        """The last lines of those that suffered; --logs keeps all of all."""
        return "\n".join(daemon.tail(12) for name, daemon in self.cluster.daemons.items() if name in self.nemesis.struck)

    def events(self):
        return self.cluster.try_run("events")[1].splitlines()[-60:]
