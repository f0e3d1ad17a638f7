"""A real fleet on loopback for the tests: a controller, agents, and miniengines that the agents start.

Everything runs in a scratch folder and a tmpfs folder of its own; Fleet.close() ends every process that it started, by pid. Python's
standard library only.
"""

import ctypes
import http.client
import itertools
import json
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import threading
import time
import urllib.parse

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("BATON_E2E_BUILD", os.environ.get("BATON_BUILD", ROOT / "build")))
DATA = ROOT / "tests/data/qwen3-tiny"
EXPECTED = json.loads((ROOT / "tests/data/expected.json").read_text())
# Sanitized daemons are slower; deadlines of tests grow with them.
PATIENCE = float(os.environ.get("BATON_E2E_PATIENCE", "1"))
# All traffic is on loopback: a proxy of the environment has nothing to do with it.
for proxy in [name for name in os.environ if name.lower().endswith("_proxy")]:
    del os.environ[proxy]
FULL = bool(os.environ.get("BATON_FULL"))
SEED = int(os.environ.get("BATON_SEED") or 1)


def part_of(matrix, count):
    """The whole matrix with --full, else 'count' rows of it, another part with each seed."""
    rows = list(matrix)
    first = SEED * count % len(rows)
    return rows if FULL else (rows[first:] + rows[:first])[:count]


def private_mounts():
    """Gives this process and its children mounts of their own, so that nothing stays mounted; False if that is not allowed."""
    done = os.geteuid() == 0 and ctypes.CDLL(None, use_errno=True).unshare(0x00020000) == 0
    return done and subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True, check=False).returncode == 0


def program(name):
    folders = {"baton-controller": "controller/shell", "baton-agent": "agent/shell", "batonctl": "controller/cli", "miniengine": "tests/miniengine"}
    return str(BUILD / folders[name] / name)


PORTS_FIRST, PORTS_LAST = 15000, 65535
CLAIMS = {}  # port -> the socket whose name says that it is ours.


def ports_to_claim():
    """Those that the kernel gives to nobody by itself: a daemon that is away for a while finds its port free when it is back."""
    try:
        first, last = map(int, pathlib.Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split())
    except (OSError, ValueError):
        first, last = 32768, 60999
    ports = [port for port in range(PORTS_FIRST, PORTS_LAST + 1) if not first <= port <= last]
    return ports if len(ports) > 1000 else range(PORTS_FIRST, PORTS_LAST + 1)


def claim_port(port):
    """True if the port is free and no other test process on this machine has claimed it; it is ours until this process ends."""
    claim, probe = socket.socket(socket.AF_UNIX), socket.socket()
    try:
        claim.bind(f"\0baton-test-port-{port}")
        probe.bind(("127.0.0.1", port))
    except OSError:
        claim.close()
        return False
    finally:
        probe.close()
    CLAIMS[port] = claim
    return True


def free_ports(count):
    """Ports that this process alone may use: no two calls give the same one, here or in another test process."""
    candidates = random.SystemRandom().sample(ports_to_claim(), 1000)
    ports = list(itertools.islice(filter(claim_port, candidates), count))
    assert len(ports) == count, "there are no free ports"
    return ports


def wait_until(what, condition, seconds=60, every=0.05):
    """The condition's first true value; fails with 'what' (a text or a function that gives one)."""
    deadline = time.monotonic() + seconds * PATIENCE
    while True:
        late = time.monotonic() >= deadline  # Before the last look, so that a machine that stalls here takes no look away.
        value = condition()
        if value:
            return value
        if late:
            raise AssertionError(f"not within {seconds * PATIENCE:.0f} s: {what() if callable(what) else what}")
        time.sleep(every)


def answers_at(path):
    """True if somebody accepts connections at this local socket; its file may be older than its listener."""
    with socket.socket(socket.AF_UNIX) as probe:
        return probe.connect_ex(str(path)) == 0


def processes_naming(folder):
    """All living processes whose command or environment names a test's folder: also an engine that was only just started."""
    found, mark = [], bytes(folder)
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                said = [pathlib.Path(f"/proc/{entry}/{file}").read_bytes() for file in ("cmdline", "environ")]
            except OSError:
                continue
            if any(mark in text for text in said):
                found.append(int(entry))
    return found


class Process:
    """One daemon with its log."""

    def __init__(self, name, argv, log, env=None):
        self.name, self.argv, self.log, self.env = name, argv, pathlib.Path(log), env
        self.popen = None
        self.log_before = 0  # Its size when this life began.

    def start(self):
        self.log_before = self.log.stat().st_size if self.log.exists() else 0
        with open(self.log, "ab") as out:
            self.popen = subprocess.Popen(self.argv, stdout=out, stderr=out, stdin=subprocess.DEVNULL, env={**os.environ, **(self.env or {})})
        return self

    def is_alive(self):
        return self.popen is not None and self.popen.poll() is None

    def kill(self):
        if self.is_alive():
            self.popen.kill()
            self.popen.wait()

    def stop(self, seconds=20):
        """SIGTERM and its exit code; kills what does not end in time."""
        if not self.is_alive():
            return self.popen.returncode if self.popen else None
        self.popen.terminate()
        try:
            return self.popen.wait(seconds * PATIENCE)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"{self.name} did not end within {seconds} s of SIGTERM") from None

    def tail(self, lines=25):
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        return f"--- {self.name}\n" + "\n".join(text.splitlines()[-lines:])


class Fleet:
    """groups: {agent: {group: [ranks of engine 0, ranks of engine 1, ...]}}; of several agents with one group the first one leads it."""

    def __init__(self, groups, model="m", faults=False, times=None, arguments=None, base=None):
        self.groups, self.model, self.faults = groups, model, faults
        self.times = times or {}
        self.arguments = arguments or []
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="baton-e2e.", dir=base))
        self.shm = pathlib.Path(tempfile.mkdtemp(prefix="baton-e2e.", dir="/dev/shm"))
        (self.dir / "versions").mkdir()
        self.port = free_ports(1)[0]
        self.server = f"127.0.0.1:{self.port}"
        self.engines = {}
        self.listens = {name: f"127.0.0.1:{port}" for name, port in zip(groups, free_ports(len(groups)))}
        self.extra = []
        self.mounts = []
        self.controller = Process("controller", self.controller_argv(), self.dir / "controller.log")
        self.agents = {name: self.make_agent(name) for name in groups}

    # --- files ---

    @staticmethod
    def program(name):
        """Where a program of this fleet is; tests/upgrade mixes two releases."""
        return program(name)

    def controller_argv(self):
        return [self.program("baton-controller"), "--listen", self.server, "--store", f"sqlite:{self.dir}/controller.db"]

    def engine_config(self, agent, group, index, ranks):
        port = free_ports(1)[0]
        self.engines[f"{group}.e{index}"] = f"http://127.0.0.1:{port}"
        command = [self.program("miniengine"), "--model", "{checkpoint}", "--served-model-name", "default"]
        command += ["--port", str(port), "--tensor-parallel-size", str(ranks)] + (["--faults"] if self.faults else []) + self.arguments
        return {"name": f"e{index}", "kind": "vllm", "url": f"http://127.0.0.1:{port}", "recreate": {"exec": {"command": command}}}

    def members_of(self, group):
        return [agent for agent in self.groups if group in self.groups[agent]]

    def group_config(self, agent, group):
        members = self.members_of(group)
        first = sum(len(self.groups[m][group]) for m in members[: members.index(agent)])  # Names are unique in the group.
        engines = [self.engine_config(agent, group, first + i, r) for i, r in enumerate(self.groups[agent][group])]
        config = {"name": group, "model": self.model, "engines": engines}
        if agent != members[0]:
            config["leader"] = members[0]
        elif len(members) > 1:
            config["members"] = [{"agent": m, "address": self.listens[m]} for m in members[1:]]
        return config

    def agent_config(self, name):
        config = {
            "name": name,
            "controller": self.server,
            "stateDirectory": str(self.dir / name),
            "socket": f"unix:{self.dir}/{name}.sock",
            "landing": {"directory": str(self.shm / name), "budget": "64MiB"},
            "versions": {"directory": str(self.dir / "versions")},
            "stopEnginesOnExit": False,
            "groups": [self.group_config(name, group) for group in self.groups[name]],
        }
        if any("leader" in group for group in config["groups"]):
            config["listen"] = self.listens[name]
        if self.times:
            config["times"] = self.times
        return config

    def make_agent(self, name):
        path = self.dir / f"{name}.yaml"
        path.write_text(json.dumps(self.agent_config(name), indent=1))  # JSON is YAML.
        return Process(name, [self.program("baton-agent"), "--config", str(path)], self.dir / f"{name}.log")

    def apply_model(self, **update):
        path = self.dir / "model.yaml"
        path.write_text(json.dumps({"kind": "Model", "metadata": {"name": self.model}, "spec": {"update": update}}))
        return self.ctl("apply", "-f", str(path))

    # --- commands ---

    def run(self, *words, agent=None, timeout=120, given=""):
        """batonctl's (exit code, stdout, stderr); 'given': its stdin."""
        first = agent or next(iter(self.groups))
        env = {**os.environ, "BATON_SERVER": self.server, "BATON_AGENT": f"unix:{self.dir}/{first}.sock"}
        done = subprocess.run(
            [self.program("batonctl"), *map(str, words)], env=env, input=given, capture_output=True, text=True, timeout=timeout * PATIENCE, check=False
        )
        return done.returncode, done.stdout, done.stderr

    def ctl(self, *words, **options):
        code, out, err = self.run(*words, **options)
        if code != 0:
            raise AssertionError(f"batonctl {' '.join(map(str, words))}: exit {code}\n{out}{err}\n{self.tails()}")
        return out

    def get(self, kind, *words):
        return json.loads(self.ctl("get", kind, *words, "-o", "json"))["items"]

    def group_items(self):
        """{name: group}; empty while the controller does not answer."""
        code, out, _ = self.run("get", "groups", "-o", "json")
        return {g["meta"]["name"]: g for g in json.loads(out)["items"]} if code == 0 else {}

    def publish(self, version, *words, **options):
        out = self.ctl("publish", version if "/" in str(version) else DATA / version, "--model", self.model, *words, "-o", "json", **options)
        return json.loads(out)

    # --- life ---

    def start(self, wait=True):
        self.controller.start()
        self.wait_controller()
        self.apply_model(**self.default_update())
        for agent in self.agents.values():
            agent.start()
        if wait:
            for name in self.agents:
                self.wait_listening(name)
        return self

    @staticmethod
    def default_update():
        return {"maxUnavailable": "1"}

    def mount_small(self, path, size):
        """A file system of a few bytes on a folder, until close(); private_mounts() came before."""
        path.mkdir(parents=True, exist_ok=True)
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(path)], check=True)
        self.mounts.append(path)

    def wait_controller(self):
        wait_until(lambda: f"the controller answers\n{self.tails()}", lambda: self.run("get", "models")[0] == 0)

    def wait_listening(self, name):
        wait_until(lambda: f"agent {name} listens\n{self.tails()}", lambda: answers_at(self.dir / f"{name}.sock"))

    def wait_connected(self):
        """Until each agent that runs has a session of its present life."""
        for agent in self.agents.values():
            wait_until(lambda x=agent: f"{x.name} connected\n{x.tail()}", lambda x=agent: b"session: connected" in x.log.read_bytes()[x.log_before :])

    def wait_serving(self, seq, seconds=60, groups=None):
        """Until every group serves 'seq' with its gate open."""

        def all_serve():
            items = self.group_items()
            names = groups or {g for agent in self.groups.values() for g in agent}
            return all(
                name in items and int(items[name].get("committedSeq", 0)) == seq and items[name].get("gateOpen") and "ticket" not in items[name]
                for name in names
            )

        wait_until(lambda: f"all groups serve v{seq}\n{self.ctl('get', 'groups', '-o', 'wide')}\n{self.tails()}", all_serve, seconds)

    def wait_labels(self, seq):
        """Until every engine is told of with this label and an open gate."""
        labels = lambda: {(e.get("label"), e.get("gate")) for e in self.get("engines")}
        wait_until(lambda: f"all engines are labelled {seq} and open: {labels()}\n{self.tails()}", lambda: labels() == {(str(seq), "open")})

    def wait_roll(self, seq, state="COMPLETED"):
        """Until the newest roll to 'seq' is in this state: rolls end a moment after their last group."""

        def found():
            rolls = [r for r in self.get("rolls") if int(r["toSeq"]) == seq]
            return rolls and rolls[0]["state"] == f"ROLL_STATE_{state}" and rolls[0]

        return wait_until(lambda: f"the roll to {seq} is {state}: {self.get('rolls')}\n{self.tails()}", found)

    def start_traffic(self, seconds=300, tokens=16, engines=None, patience=60):
        out = self.dir / f"answers{len(self.extra)}.jsonl"
        pairs = [f"{name}={url}" for name, url in self.engines.items() if engines is None or name in engines]
        argv = ["/usr/bin/python3", str(ROOT / "tests/e2e/traffic.py"), "--seconds", str(seconds), "--tokens", str(tokens)]
        argv += ["--patience", str(patience), "--out", str(out), *pairs]
        process = Process("traffic", argv, self.dir / f"traffic{len(self.extra)}.log")
        self.extra.append(process)
        process.answers = out
        process.start()
        wait_until("traffic runs", lambda: out.exists() and out.stat().st_size > 0)
        return process

    # --- one engine, past Baton ---

    def engine_call(self, engine, method, path, body=None, timeout=20):
        """(status, JSON) of one call with the agent's token; engine: "group.engine"."""
        url = urllib.parse.urlsplit(self.engines[engine])
        files = [self.dir / agent / "engines" / f"{engine}.token" for agent in self.agents]
        token = next(f.read_text().strip() for f in files if f.exists())
        connection = http.client.HTTPConnection(url.hostname, url.port, timeout=timeout * PATIENCE)
        try:
            text = json.dumps(body) if body is not None else None
            connection.request(method, path, text, {"Content-Type": "application/json", "x-baton-token": token})
            answer = connection.getresponse()
            raw = answer.read()
            return answer.status, json.loads(raw) if raw else None
        finally:
            connection.close()

    def set_fault(self, engine, **fault):
        status, answer = self.engine_call(engine, "POST", "/miniengine/faults", fault)
        assert status == 200, f"fault {fault} of {engine}: {status} {answer}"

    def clear_faults(self, engine):
        """The faults that were set, with the ranks where they fired; [] if the engine is another one by now or gone."""
        try:
            found = self.engine_call(engine, "GET", "/miniengine/faults")[1]["faults"]
            self.engine_call(engine, "DELETE", "/miniengine/faults")
            return found
        except (OSError, http.client.HTTPException):
            return []

    def outcomes(self, group):
        """[(ticket number, seq, outcome)] of the group's swaps that ended, oldest first."""
        words = r"number (\d+) to version (\d+): (\w+)"
        found = [re.match(words, e["message"]) for e in self.events(f"group/{group}") if e["reason"] in ("SwapEnded", "SwapFailed")]
        return [(int(m[1]), int(m[2]), m[3]) for m in found if m]

    def events(self, *words):
        """Events of an object, or of all, oldest first."""
        text, decoder, found, at = self.ctl("events", *words, "-o", "json"), json.JSONDecoder(), [], 0
        while at < len(text):
            event, at = decoder.raw_decode(text, at)
            found.append(event)
            at += len(text[at:]) - len(text[at:].lstrip())
        return found

    def tails(self):
        return "\n".join(p.tail() for p in [self.controller, *self.agents.values()])

    def engine_pids(self):
        """{group.engine: pid} of engines by the agents' pid files."""
        pids = {}
        for agent in self.agents:
            for path in (self.dir / agent / "engines").glob("*.pid"):
                try:
                    words = path.read_text().split()
                except FileNotFoundError:  # Replaced or removed just now.
                    continue
                if words and words[0].isdigit():
                    pids[path.stem] = int(words[0])
        return pids

    def session_pids(self, leader):
        """All processes of an engine's session (its ranks), the leader first."""
        found = [leader]
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != leader:
                try:
                    if os.getsid(int(entry)) == leader:
                        found.append(int(entry))
                except OSError:
                    pass
        return found

    def owned_pids(self):
        return processes_naming(self.dir)

    # --- what is in no log ---

    def secrets(self):
        """{text: where from} that no daemon and no engine may write down: tokens, keys, prompts."""
        found = {prompt: "a prompt of the traffic" for prompt in EXPECTED["prompts"].values()}
        for path in [*self.dir.rglob("*.token"), *self.dir.rglob("*.tokens")]:
            found.update({word: path for word in path.read_text().split() if len(word) >= 16 and not word.startswith("sha256:")})
        for path in self.dir.rglob("*.key"):
            found.update({line: path for line in path.read_text().splitlines()[1:2]})
        return found

    def logs(self):
        """Of all processes but the tests' own: logs, and the audit."""
        own = {process.log for process in self.extra}
        return [p for pattern in ("*.log*", "*.audit.jsonl*") for p in self.dir.rglob(pattern) if p.is_file() and p not in own]

    def check_logs(self):
        secrets = {text.encode(): where for text, where in self.secrets().items()}
        for log in self.logs():
            text = log.read_bytes()
            for secret, where in secrets.items():
                assert secret not in text, f"{log} holds a secret: {where}"

    def close(self):
        self.end()
        try:
            self.check_logs()
        finally:
            self.remove()

    def end(self):
        for process in self.extra:
            process.kill()
        for agent in self.agents.values():
            agent.kill()
        self.controller.kill()
        deadline = time.monotonic() + 20
        while (pids := self.owned_pids()) and time.monotonic() < deadline:
            for pid in pids:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.02)

    def remove(self):
        for path in self.mounts:
            subprocess.run(["umount", "-l", str(path)], check=False)
        shutil.rmtree(self.dir, ignore_errors=True)
        shutil.rmtree(self.shm, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


# --- judging answers ---

TOLERANCE = EXPECTED["probe"]["tolerance"]


def read_answers(traffic):
    return [json.loads(line) for line in pathlib.Path(traffic.answers).read_text().splitlines() if line.endswith("}")]


def prompt_key(prompt):
    return next(key for key, text in EXPECTED["prompts"].items() if text == prompt)


def is_pure(answer, version):
    """True if an answer's text and log-probabilities are those of one version ('v1'), and of no mixture."""
    want = EXPECTED["versions"][version][prompt_key(answer["prompt"])]
    count = len(answer["logprobs"])
    if answer["text"] != want["text"][: len(answer["text"])]:
        return False
    return all(abs(a - b) <= TOLERANCE for a, b in zip(answer["logprobs"], want["logprobs"][:count]))


def check_answers(answers, names):
    """Every good answer that began and ended under one version is purely that version's. 'names': {seq: 'v1'}."""
    judged = 0
    for answer in answers:
        if answer["status"] == 200 and answer["version"] == answer["version_end"]:
            seq = int(answer["version"])
            assert seq in names, f"an answer under version {seq}, which was never served: {answer}"
            assert is_pure(answer, names[seq]), f"not purely {names[seq]}: {answer}"
            judged += 1
    assert judged > 0, "no answer could be judged"
    return judged


# --- watching gates ---


class GateWatch(threading.Thread):
    """Reads engines' guard pages all the time: how long was each gate shut, by bytes that no daemon of ours reports.

    Its clock stands still while it does not run itself: a machine that stalls for seconds is no gate that was shut for so long."""

    STEP_S = 0.1  # Most that its clock goes on between two looks.

    def __init__(self, fleet):
        super().__init__(daemon=True)
        self.pages = {path.stem: path for agent in fleet.agents for path in (fleet.dir / agent / "engines").glob("*.page")}
        self.longest = dict.fromkeys(self.pages, 0.0)
        self.shut_since = dict.fromkeys(self.pages)
        self.stopping = threading.Event()

    @staticmethod
    def is_open(path):
        try:
            page = path.read_bytes()
        except OSError:
            return False
        number = lambda at, size: int.from_bytes(page[at : at + size], "little")
        return number(16, 4) == 1 and number(32, 8) == number(128, 8)

    def look(self, engine, now):
        if self.is_open(self.pages[engine]):
            self.shut_since[engine] = None
            return
        self.shut_since[engine] = now if self.shut_since[engine] is None else self.shut_since[engine]
        self.longest[engine] = max(self.longest[engine], now - self.shut_since[engine])

    def run(self):
        now, before = 0.0, time.monotonic()
        while not self.stopping.wait(0.005):
            began = time.monotonic()
            now, before = now + min(began - before, self.STEP_S), began
            for engine in self.pages:
                self.look(engine, now)

    def restart(self):
        """Longest shut time of each engine since the last restart."""
        longest = self.longest
        self.longest = dict.fromkeys(self.pages, 0.0)
        return longest

    def stop(self):
        self.stopping.set()
        self.join()
