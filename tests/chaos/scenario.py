"""One fleet and what is done to it: publishes under traffic, kills at random instants, and the record that the judge gets."""

import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
os.environ.setdefault("BATON_CHAOS_MARK", f"chaos-{uuid.uuid4().hex}")

import fleet  # noqa: E402
import judge  # noqa: E402
import witness  # noqa: E402

GROUPS = {"node-a": {"g0": [1], "g1": [2]}, "node-b": {"g2": [1, 1]}}
VERSIONS = ("v1", "v2", "v3")
# Short, so that a run takes seconds; 'steady', so that the kills of one fleet do not add up to an engine that is given up.
TIMES = {
    "healthInterval": "200ms",
    "engineLost": "2s",
    "recreateAfter": "2s",
    "retryFirst": "100ms",
    "retryMax": "1s",
    "restoreBound": "20s",
    "steady": "500ms",
}
POLICY = {"maxUnavailable": "1", "inFlight": "keep", "arrivals": "hold", "swapDeadline": "20s"}
SETTLE_S = 90
# Longest time that a swap may keep a gate closed: its deadline and the restore bound (invariant 11); what a kill adds is added.
CLOSED_S = 40
FROZEN_S = 12  # Longer than the lease.


class PatientFleet(fleet.Fleet):
    """A fleet whose batonctl may fail or hang."""

    ANSWER_S = 15

    def try_run(self, *words, timeout=None, **options):
        timeout = timeout or self.ANSWER_S
        try:
            return self.run(*words, timeout=timeout, **options)
        except subprocess.TimeoutExpired:
            return 124, "", f"no answer within {timeout} s"

    def try_items(self, kind):
        """Items as batonctl lists them; None while it cannot."""
        code, out, _ = self.try_run("get", kind, "-o", "json")
        return json.loads(out)["items"] if code == 0 else None


class ChaosFleet(PatientFleet):
    """The fleet of the end-to-end tests, with a policy of its own."""

    def __init__(self):
        super().__init__(GROUPS, times=TIMES)
        self.parts = {group: {f"{group}.e{i}": ranks for i, ranks in enumerate(engines)} for groups in GROUPS.values() for group, engines in groups.items()}
        self.ports = {name: int(url.rpartition(":")[2]) for name, url in self.engines.items()}
        self.home = {group: agent for agent, groups in GROUPS.items() for group in groups}

    @staticmethod
    def default_update():
        return POLICY

    def engine_file(self, engine, ending):
        group = engine.split(".", maxsplit=1)[0]
        return self.dir / self.home[group] / "engines" / f"{engine}.{ending}"

    def processes(self):
        known = {self.controller.popen.pid: "controller", **{a.popen.pid: name for name, a in self.agents.items()}}
        return witness.marked_processes(os.environ["BATON_CHAOS_MARK"], known, {str(port): name for name, port in self.ports.items()})

    def ranks_of(self, engine):
        """Pids of an engine, its leader first."""
        mine = [p for p in self.processes() if p["engine"] == engine]
        return [p["pid"] for p in sorted(mine, key=lambda p: (p["pid"] != p["session"], p["pid"]))]


def predictions():
    """{daemon: outcomes of swaps} over all small worlds of the simulator in which it dies once while a version is rolled out."""
    words = [str(fleet.BUILD / "tests/sim"), "--predict"]
    lines = subprocess.run(words, check=True, capture_output=True, text=True, timeout=600 * fleet.PATIENCE).stdout.splitlines()
    return {who: outcomes for who, *outcomes in map(str.split, lines)}


class Story:
    """What was done in one run, for people."""

    def __init__(self):
        self.began, self.lines = time.monotonic(), []

    def tell(self, text):
        self.lines.append(f"{time.monotonic() - self.began:7.3f} s  {text}")


class Chaos:
    """A fleet under traffic; run() does one publish with its faults, and returns (violations, summary)."""

    def __init__(self, seed, kind):
        self.seed, self.kind = seed, kind
        self.fleet = ChaosFleet()
        self.names, self.digests, self.newest = {}, {}, 0
        self.predicted, self.tickets = {}, {}
        self.roll_s, self.publish_s, self.hold_s = 3.0, 0.2, 0.3
        self.struck_closed = 0
        self.clients = self.pages = None
        self.record = None

    def open(self):
        """Serves all three versions once without a fault, which also measures how long a roll and a gate's closing take."""
        self.predicted = predictions()
        self.fleet.start()
        self.publish("v1", "node-a", None, Story())
        self.fleet.wait_serving(self.newest)
        engines = [(group, name, self.fleet.ports[name]) for group, parts in self.fleet.parts.items() for name in parts]
        self.pages = witness.Pages({name: self.fleet.engine_file(name, "page") for _, name, _ in engines})
        self.clients = witness.Clients(engines, judge.EXPECTED["prompts"])
        took = []
        for version in ("v2", "v3"):
            began = time.monotonic()
            self.publish(version, "node-a", None, Story())
            self.publish_s = time.monotonic() - began
            self.fleet.wait_serving(self.newest)
            took.append(time.monotonic() - began)
            closed = [until - since for _, since, until in self.pages.closed(began)]
            self.hold_s = sum(closed) / len(closed) if closed else self.hold_s
        self.roll_s = sum(took) / len(took)

    def close(self, keep_logs=None):
        if keep_logs:
            shutil.copytree(self.fleet.dir, keep_logs, ignore=shutil.ignore_patterns("versions", "*.sock"), dirs_exist_ok=True)
        if self.clients:
            self.clients.stopping.set()
        if self.pages:
            self.pages.stop()
        leaders = [p["session"] for p in self.fleet.processes() if p["engine"]] if self.fleet.controller.popen else []
        self.fleet.close()
        for leader in leaders:
            for pid in self.fleet.session_pids(leader):
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
        if self.clients:
            self.clients.stop(10)

    # --- what happens ---

    def publish(self, version, agent, faulty, story):
        """Publishes as an operator does: what failed while something was being killed is said again with the same request id."""
        request = uuid.uuid4().hex
        deadline = time.monotonic() + SETTLE_S * fleet.PATIENCE
        words = ["publish", fleet.DATA / version, "--model", self.fleet.model, "--request-id", request, "-o", "json"]
        while True:
            code, out, err = self.fleet.try_run(*words, agent=agent, timeout=30)
            if code == 0:
                break
            story.tell(f"publish of {version} through {agent}: exit {code}: {err.strip()[:200]}")
            if faulty is None or not faulty.is_set() and time.monotonic() > deadline - SETTLE_S * fleet.PATIENCE + 30:
                raise AssertionError(f"publish failed and nothing had been killed: exit {code}: {err}")
            if time.monotonic() > deadline:
                raise AssertionError(f"publish of {version} never came through: {err}")
            time.sleep(0.2)
        told = json.loads(out)
        seq = int(told["seq"])
        self.names[seq], self.newest = version, seq
        self.digests.setdefault(version, told["digest"])
        story.tell(f"publish of {version} is version {seq}")

    def gates(self):
        return " ".join(f"{name}={gate}/{version}" for name, (gate, version, _) in sorted(self.pages.now.items()))

    def wait_instant(self, fault, story):
        """A random instant of the publish, of the roll, or of the time for which a gate is closed."""
        began = time.monotonic()
        if fault["aim"] != "closed":
            time.sleep(fault["share"] * (self.roll_s if fault["aim"] == "roll" else self.publish_s))
            return
        while time.monotonic() - began < 3 * self.roll_s:
            if any(gate == "hold" for name, (gate, _, _) in self.pages.now.items() if name in fault["engines"]):
                time.sleep(fault["share"] * self.hold_s)
                return
            time.sleep(0.003)
        story.tell("no gate of the group was seen closing")

    def kill_daemon(self, fault, process, story):
        frozen = fault["what"].startswith("freeze")
        story.tell(f"{'SIGSTOP' if frozen else 'SIGKILL'} {process.name} (pid {process.popen.pid}); {self.gates()}")
        if frozen:
            process.popen.send_signal(signal.SIGSTOP)
            time.sleep(FROZEN_S)
            process.popen.send_signal(signal.SIGCONT)
            story.tell(f"SIGCONT {process.name}")
            return
        process.kill()
        time.sleep(fault["restart"])
        process.start()
        story.tell(f"{process.name} started again (pid {process.popen.pid})")

    def kill_rank(self, fault, ranks, outages, story):
        rank = fault["rank"] % len(ranks)
        group = fault["engine"].split(".")[0]
        boots = {fault["engine"]: self.pages.now[fault["engine"]][2]}
        story.tell(f"SIGKILL {fault['engine']} rank {rank} (pid {ranks[rank]}); {self.gates()}")
        outages.append({"group": group, "since": time.monotonic(), "until": None, "boots": boots})
        os.kill(ranks[rank], signal.SIGKILL)

    def kill_on_return(self, fault, outages, story):
        """Kills a rank of the engine that was just killed again, while it joins."""
        boots, deadline = self.pages.now[fault["engine"]][2], time.monotonic() + 30
        while self.pages.now[fault["engine"]][2] == boots and time.monotonic() < deadline:
            time.sleep(0.003)
        time.sleep(fault["share"] * self.hold_s)
        ranks = self.fleet.ranks_of(fault["engine"])
        if ranks:
            self.kill_rank(fault, ranks, outages, story)

    def strike(self, fault, outages, faulty, story):
        ranks = self.fleet.ranks_of(fault["engine"])  # Looked up first: it takes longer than some phases.
        self.wait_instant(fault, story)
        faulty.set()
        self.struck_closed += any(gate != "open" for gate, _, _ in self.pages.now.values())
        if fault["what"] == "rank":
            self.kill_rank(fault, ranks, outages, story)
            if fault["again"]:
                self.kill_on_return(fault, outages, story)
        elif fault["what"].endswith("controller"):
            self.kill_daemon(fault, self.fleet.controller, story)
        else:
            self.kill_daemon(fault, self.fleet.agents[fault["agent"]], story)

    def plan(self, rng):
        """The faults of one run; only the seed and the run's number decide."""
        kinds = [self.kind]
        if self.kind == "mixed":
            kinds = rng.sample(["controller", "agent", "rank", "freeze controller", "freeze agent"], rng.choice([1, 2, 2]))
        plan = []
        for what in kinds:
            group = rng.choice(sorted(self.fleet.parts))
            engine = rng.choice(sorted(self.fleet.parts[group]))
            aim = rng.choice(["roll", "closed", "closed"] if what == "rank" else ["publish", "roll", "closed", "closed"])
            again = self.kind == "mixed" and rng.random() < 0.5
            fault = {"what": what, "aim": aim, "share": rng.uniform(0, 1.1), "restart": rng.uniform(0, 0.5), "again": again}
            fault.update(agent=self.fleet.home[group], engine=engine, rank=rng.randrange(2), engines=list(self.fleet.parts[group]))
            plan.append(fault)
        return plan

    # --- what came of it ---

    def settled(self):
        """Every group serves the newest version, by batonctl and by its pages."""
        groups = self.fleet.try_items("groups")
        if not groups or len(groups) != len(self.fleet.parts):
            return False
        return all(int(g.get("committedSeq", 0)) == self.newest and g.get("gateOpen") and "ticket" not in g for g in groups) and all(
            gate == "open" for gate, _, _ in self.pages.now.values()
        )

    def wait_settled(self, outages, story):
        deadline = time.monotonic() + SETTLE_S * fleet.PATIENCE
        while time.monotonic() < deadline:
            for outage in outages:
                engines = list(self.fleet.parts[outage["group"]])
                outage["until"] = outage["until"] or self.pages.back(engines, outage["boots"], outage["since"])
            if all(outage["until"] for outage in outages) and self.settled():
                story.tell("settled")
                return True
            time.sleep(0.1)
        story.tell(f"not settled; {self.gates()}")
        for outage in outages:
            outage["until"] = outage["until"] or time.monotonic()
        return False

    def wait_told(self):
        """Rolls end a moment after their last group; killed clients' processes end a moment after them."""
        deadline = time.monotonic() + 30 * fleet.PATIENCE
        while True:
            told = {kind: self.fleet.try_items(kind) or [] for kind in ("groups", "rolls", "versions")}
            processes = self.fleet.processes()
            self.record.update(told=told, processes=processes)
            if time.monotonic() > deadline or not judge.judge_told(self.record) + judge.judge_processes(self.record):
                return
            time.sleep(0.2)

    def collect(self, began, start, outages, spare_s):
        """The run's record."""
        self.record = {
            "names": dict(self.names),
            "digests": dict(self.digests),
            "newest": self.newest,
            "undone": set(),
            "in_flight": POLICY["inFlight"],
            "groups": self.fleet.parts,
            "daemons": ["controller", *self.fleet.agents],
            "outages": outages,
            "holds": self.pages.holds(began, outages, (CLOSED_S + spare_s) * fleet.PATIENCE),
            "engines": {
                name: witness.look_at_engine(port, self.fleet.engine_file(name, "token").read_text().strip(), judge.EXPECTED["prompts"])
                for name, port in self.fleet.ports.items()
            },
        }
        self.record["answers"] = self.clients.since(start)
        self.record["predicted"] = self.predicted.get(self.kind, [])
        self.record["swaps"] = self.swaps()
        self.wait_told()

    def swaps(self):
        """{group: outcomes} of what ended since this was last asked."""
        found = {}
        for group in self.fleet.parts:
            ended = self.fleet.outcomes(group)
            found[group] = [outcome for number, _, outcome in ended if number > self.tickets.get(group, 0)]
            self.tickets[group] = max([number for number, _, _ in ended], default=0)
        return found

    def run(self, index):
        rng = random.Random(f"{self.seed}/{self.kind}/{index}")
        plan, story, outages, faulty = self.plan(rng), Story(), [], threading.Event()
        version, agent = VERSIONS[self.newest % 3], rng.choice(sorted(self.fleet.agents))
        self.swaps()
        began, start = time.monotonic(), self.clients.count()
        before = self.newest
        story.tell(f"publish {version} through {agent}; plan: {json.dumps(plan)}")
        failures = []

        def guarded(call, *words):
            try:
                call(*words)
            except Exception as error:  # pylint: disable=broad-except
                failures.append(f"{type(error).__name__}: {error}")

        threads = [threading.Thread(target=guarded, args=(self.publish, version, agent, faulty, story))]
        threads += [threading.Thread(target=guarded, args=(self.strike, fault, outages, faulty, story)) for fault in plan]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if not failures:
            settled = self.wait_settled(outages, story)
            spare_s = sum(FROZEN_S if f["what"].startswith("freeze") else f["restart"] for f in plan) + 5
            self.collect(began, start, outages, spare_s)
            failures += judge.judge(self.record)
            if self.newest != before + 1:
                failures.append(f"one publish with one request id, retried: the newest version went from {before} to {self.newest}")
            if not settled:
                story.tell("waiting groups: " + "; ".join(self.reasons()))
        return failures, story, settled if not failures else False

    def reasons(self):
        return [f"{g['meta']['name']}: {g.get('state')} {g.get('blockedReason')} {g.get('blockedMessage')}" for g in self.record["told"]["groups"]]

    def tails(self):
        return self.fleet.tails()

    def events(self):
        """The controller's last events, for a failed run's story."""
        return self.fleet.try_run("events")[1].splitlines()[-60:]
