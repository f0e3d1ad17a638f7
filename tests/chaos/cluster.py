"""The fleet of the second rig: three members of etcd, three controllers, eight agents and their sixteen engines, each machine a namespace; mutual TLS."""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request
import uuid

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))
os.environ.setdefault("BATON_CHAOS_MARK", f"chaos-{uuid.uuid4().hex}")

import fleet  # noqa: E402
import scenario  # noqa: E402
import several  # noqa: E402
import store_clock  # noqa: E402
import witness  # noqa: E402

# Groups of one engine, of one engine with two ranks, of two engines; the last one's engines stand on two nodes.
GROUPS = {
    "n0": {"n0-a": [1], "n0-b": [1]},
    "n1": {"n1-a": [2], "n1-b": [1]},
    "n2": {"n2-a": [1, 1]},
    "n3": {"n3-a": [1], "n3-b": [1]},
    "n4": {"n4-a": [1, 1]},
    "n5": {"n5-a": [1], "n5-b": [1]},
    "n6": {"n6-a": [1], "n6-b": [1]},
    "n7": {"n7-a": [1], "n6-b": [1]},
}
MEMBERS, CONTROLLERS = ("e0", "e1", "e2"), ("c0", "c1", "c2")
POLICY = {"maxUnavailable": "3", "inFlight": "keep", "arrivals": "hold", "swapDeadline": "20s"}
# As long as by default: thirty daemons on two busy cores may be silent for a while.
TIMES = {**scenario.TIMES, "healthInterval": "500ms", "engineLost": f"{5 * fleet.PATIENCE:g}s"}
DOMAIN = "chaos.lab"
CLIENT_PORT, PEER_PORT, CONTROLLER_PORT, AGENT_PORT, ENGINE_PORT = 2379, 2380, 7070, 7071, 8000
FAKETIME = pathlib.Path("/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1")
FAULTS = [pathlib.Path("/usr/lib/fiu/fiu_run_preload.so"), pathlib.Path("/usr/lib/fiu/fiu_posix_preload.so")]
FAULTY = fleet.BUILD / "tests/chaos_faulty.so"
STATE_BYTES = 8 << 20
DISK_BYTES = {**dict.fromkeys(MEMBERS, 320 << 20), **dict.fromkeys(CONTROLLERS, STATE_BYTES), **dict.fromkeys(GROUPS, STATE_BYTES)}
RESTART_S = 0.3
TIMESHIFT = HERE / "timeshift.py"


class Daemon(fleet.Process):
    """A process on a node, started again when it ends, as a supervisor would; and how each of its lives ended."""

    def __init__(self, node, name, argv, log, env=None):
        super().__init__(name, ["setpriv", "--pdeathsig", "KILL", *argv], log, env)
        self.node, self.wanted, self.killed = node, False, set()
        self.deaths = []  # (seconds, exit code or minus signal, whether chaos did it, whether it had served, pid)
        self.not_before = 0.0

    def start(self):
        self.wanted = True
        return self.node.call(super().start)

    def shift_clock(self, seconds):
        """From its next start on its monotonic clock is that far ahead of the machine's."""
        if self.argv[3] == str(TIMESHIFT):
            del self.argv[3:5]
        self.argv[3:3] = [str(TIMESHIFT), str(seconds)]

    def strike(self, restart_s):
        """SIGKILL; the supervisor starts it again no earlier than after 'restart_s'."""
        self.killed.add(self.popen.pid)
        self.not_before = time.monotonic() + restart_s
        self.popen.kill()

    def supervise(self):
        if not self.wanted or self.popen is None or self.popen.poll() is None:
            return
        now = time.monotonic()
        pid = self.popen.pid
        if not self.deaths or self.deaths[-1][4] != pid:
            said = self.log.read_bytes()[self.log_before :]
            served = b"controller: listening" in said or b"agent: started" in said
            self.deaths.append((now, self.popen.returncode, pid in self.killed, served, pid))
            self.not_before = max(self.not_before, now + RESTART_S)
        if now >= self.not_before:
            self.node.call(super().start)


class Cluster(scenario.PatientFleet):
    """Everything is in files of one tmpfs, under 'scratch': no test of a disk's speed."""

    ANSWER_S = 20

    def __init__(self, world, scratch):
        self.world = world
        for name in (*MEMBERS, *CONTROLLERS, *GROUPS):
            world.add(name)
        self.index = 0
        super().__init__(GROUPS, times=TIMES, base=scratch)
        self.server = ",".join(f"{self.address(c)}:{CONTROLLER_PORT}" for c in CONTROLLERS)
        self.agents = {name: self.make_agent(name) for name in GROUPS}
        self.members = {name: self.make_member(name) for name in MEMBERS}
        self.controllers = {name: self.make_controller(name) for name in CONTROLLERS}
        self.daemons = {**self.members, **self.controllers, **self.agents}
        self.parts, self.home = {}, {}  # {group: {engine: ranks}}, {engine: agent}
        for agent, groups in GROUPS.items():
            for group, engines in groups.items():
                first = len(self.parts.get(group, {}))
                for i, ranks in enumerate(engines):
                    self.parts.setdefault(group, {})[f"{group}.e{first + i}"] = ranks
                    self.home[f"{group}.e{first + i}"] = agent
        self.ports = {name: int(url.rpartition(":")[2]) for name, url in self.engines.items()}
        self.stopping, self.replacing = threading.Event(), threading.Lock()
        self.supervisor = threading.Thread(target=self.supervise, daemon=True)
        self.store_clock = store_clock.StoreClock([f"http://{self.address(m)}:{CLIENT_PORT}" for m in MEMBERS])

    def address(self, name):
        return self.world.nodes[name].address

    # --- files ---

    def controller_argv(self):
        """What the base class makes stands for nobody here; this is when the certificates are made."""
        self.pki = self.dir / "pki"
        self.certs("init", self.pki, "--trust-domain", DOMAIN)
        self.issue("ada", "operator")
        return ["false"]

    @staticmethod
    def certs(*words):
        world_must = subprocess.run([fleet.program("batonctl"), "certs", *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
        assert world_must.returncode == 0, f"batonctl certs {words}: {world_must.stderr}"

    def issue(self, name, role, *words):
        self.certs("issue", self.pki, name, "--role", role, *words)

    def pair(self, name):
        return {"ca": str(self.pki / "ca.crt"), "cert": str(self.pki / f"{name}.crt"), "key": str(self.pki / f"{name}.key")}

    def fault_env(self, name):
        """A wall clock that follows a file, and calls that fail when they are told to; each where its library is."""
        clock = self.dir / f"{name}.clock"
        clock.write_text("+0\n")
        libraries, env = [], {}
        if FAULTY.exists():
            libraries.append(FAULTY)
            env["CHAOS_FAULTY"] = str(self.fault_file(name))
            self.set_write_error(name, 0)
        if FAULTS[0].exists():
            libraries += FAULTS
            env["FIU_CTRL_FIFO"] = str(self.dir / "fiu")
        if FAKETIME.exists():
            libraries.append(FAKETIME)
            env.update(FAKETIME_TIMESTAMP_FILE=str(clock), FAKETIME_CACHE_DURATION="1", DONT_FAKE_MONOTONIC="1", FAKETIME_FORCE_MONOTONIC_FIX="0")
        return {**env, "LD_PRELOAD": " ".join(map(str, libraries))}

    def fault_file(self, name):
        return self.dir / f"{name}.fault"

    def set_write_error(self, name, error):
        """What the daemon writes to files fails with this errno from now on; 0: not any more."""
        with open(self.fault_file(name), "r+b" if self.fault_file(name).exists() else "wb", buffering=0) as file:
            file.write(bytes([error]))

    def engine_config(self, agent, group, index, ranks):
        self.index += 1
        url = self.engines[f"{group}.e{index}"] = self.engines.get(f"{group}.e{index}", f"http://127.0.0.1:{ENGINE_PORT + self.index}")
        command = [fleet.program("miniengine"), "--model", "{checkpoint}", "--served-model-name", "default"]
        command += ["--port", url.rpartition(":")[2], "--tensor-parallel-size", str(ranks)]
        return {"name": f"e{index}", "kind": "vllm", "url": url, "recreate": {"exec": {"command": command, "env": ["LD_PRELOAD="]}}}

    def agent_config(self, name):
        self.listens = {n: f"{self.address(n)}:{AGENT_PORT}" for n in GROUPS}
        config = {**super().agent_config(name), "controllerTls": self.pair(name), "peerTls": self.pair(name)}
        if "listen" in config:
            config["listenTls"] = {"cert": self.pair(name)["cert"], "key": self.pair(name)["key"], "clientCa": self.pair(name)["ca"]}
        return config

    def make_agent(self, name):
        if not (self.pki / f"{name}.crt").exists():
            self.issue(name, "agent", "--ip", self.address(name))
        made = super().make_agent(name)
        return Daemon(self.world.nodes[name], name, made.argv, made.log, self.fault_env(name))

    def make_member(self, name):
        here = self.address(name)
        peers = ",".join(f"{m}=http://{self.address(m)}:{PEER_PORT}" for m in MEMBERS)
        argv = ["etcd", "--name", name, "--data-dir", f"{self.dir}/{name}/etcd", "--initial-cluster", peers, "--initial-cluster-token", self.dir.name]
        argv += ["--listen-client-urls", f"http://{here}:{CLIENT_PORT}", "--advertise-client-urls", f"http://{here}:{CLIENT_PORT}"]
        argv += ["--listen-peer-urls", f"http://{here}:{PEER_PORT}", "--initial-advertise-peer-urls", f"http://{here}:{PEER_PORT}"]
        argv += ["--initial-cluster-state", "new"]
        return Daemon(self.world.nodes[name], name, argv, self.dir / f"{name}.log", {"GOMAXPROCS": "1"})

    def number_of(self, name, others):
        """The member's id as the others have it, also before its first start (it has no name then); None: they have none, or do not say."""
        peer = f"http://{self.address(name)}:{PEER_PORT}"
        listed = next(filter(None, (self.ask_etcd(m, "cluster/member/list", {}) for m in others)), {})
        return next((m["ID"] for m in listed.get("members", []) if peer in m.get("peerURLs", [])), None)

    def replace_member(self, name):
        """The member leaves the cluster for good, and one of its name joins with an empty disk, as deploy/docs/etcd.md says; one after
        the other. False: the cluster would not, at present."""
        with self.replacing:
            peer = f"http://{self.address(name)}:{PEER_PORT}"
            others = [m for m in MEMBERS if m != name]
            number, daemon = self.number_of(name, others), self.members[name]
            daemon.wanted = False
            removed = number and any(self.ask_etcd(m, "cluster/member/remove", {"ID": number}) for m in others)
            if not removed and (number is None or self.number_of(name, others)):  # An answer may be lost.
                daemon.wanted = True
                return False
            daemon.kill()
            # An answer may be lost here, too.
            is_listed = lambda: self.number_of(name, others) not in (None, number)
            joined = lambda: any(self.ask_etcd(m, "cluster/member/add", {"peerURLs": [peer]}) for m in others) or is_listed()
            fleet.wait_until(f"{name} may join again", joined, every=0.3)
            shutil.rmtree(f"{self.dir}/{name}/etcd")
            daemon.argv[daemon.argv.index("--initial-cluster-state") + 1] = "existing"
            daemon.start()
            fleet.wait_until(f"{name} serves again", lambda: self.ask_etcd(name, "kv/range", {"key": "AA=="}), every=0.3)
            return True

    def make_controller(self, name):
        self.issue(name, "controller", "--ip", self.address(name))
        rows = [
            {"identity": f"spiffe://{DOMAIN}/agent/*", "role": "agent", "agents": ["{1}"], "groups": ["{1}-*"]},
            {"identity": f"spiffe://{DOMAIN}/agent/*", "role": "trainer", "models": ["*"]},
            {"identity": f"spiffe://{DOMAIN}/operator/*", "role": "operator"},
        ]
        pair = self.pair(name)
        members = ",".join(f"http://{self.address(m)}:{CLIENT_PORT}" for m in MEMBERS)
        config = {
            "listen": [f"{self.address(name)}:{CONTROLLER_PORT}"],
            "store": f"etcd:{members}/baton?insecure=true",
            "leadership": {"advertise": f"{self.address(name)}:{CONTROLLER_PORT}"},
            "access": {"local": ["none"], "identities": rows},
            "tls": {"cert": pair["cert"], "key": pair["key"], "clientCa": pair["ca"]},
            "audit": {"file": f"{self.dir}/{name}/{name}.audit.jsonl"},
        }
        path = self.dir / f"{name}.yaml"
        path.write_text(json.dumps(config))
        argv = [fleet.program("baton-controller"), "--config", str(path)]
        return Daemon(self.world.nodes[name], name, argv, self.dir / name / f"{name}.log", self.fault_env(name))

    # --- commands ---

    @staticmethod
    def default_update():
        return POLICY

    def run(self, *words, **options):
        pair = self.pair("ada")
        return super().run(*words, "--ca", pair["ca"], "--cert", pair["cert"], "--key", pair["key"], **options)

    # --- life ---

    def supervise(self):
        while not self.stopping.wait(0.05):
            for daemon in self.daemons.values():
                daemon.supervise()

    def start(self, wait=True):
        for name, size in DISK_BYTES.items():
            self.mount_small(self.dir / name, f"{size}")
        for member in self.members.values():
            member.start()
        for name in MEMBERS:
            fleet.wait_until(lambda n=name: f"{n} serves\n{self.members[n].tail()}", lambda n=name: self.ask_etcd(n, "kv/range", {"key": "AA=="}))
        for daemon in (*self.controllers.values(), *self.agents.values()):
            daemon.start()
        self.wait_controller()
        self.apply_model(**self.default_update())
        for name in self.agents:
            self.wait_listening(name)
        self.supervisor.start()
        self.store_clock.start()
        return self

    def close(self):
        self.stopping.set()
        self.store_clock.stop()
        for daemon in self.daemons.values():
            daemon.wanted = False
        if self.supervisor.is_alive():
            self.supervisor.join()
        for daemon in self.daemons.values():
            daemon.kill()
        super().close()

    def tails(self):
        return "\n".join(daemon.tail() for daemon in self.daemons.values())

    def tell_faults(self, pid, command):
        """Whether libfiu in that process took the command."""
        words = ["fiu-ctrl", "-f", str(self.dir / "fiu"), "-c", command, str(pid)]
        try:
            return subprocess.run(words, capture_output=True, timeout=5, check=False).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    # --- what is so ---

    def ask_etcd(self, name, path, body):
        """A member's answer as JSON; None: it gave none."""
        request = urllib.request.Request(f"http://{self.address(name)}:{CLIENT_PORT}/v3/{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=5) as answer:
                return json.loads(answer.read())
        except (OSError, ValueError):
            return None

    def member_leads(self, name):
        status = self.ask_etcd(name, "maintenance/status", {})
        return bool(status) and status.get("leader") == status["header"]["member_id"]

    def leader(self):
        """The controller that leads, by the last word in its log of its present life; None: none does."""
        for name, daemon in self.controllers.items():
            lines = daemon.log.read_bytes()[daemon.log_before :].decode(errors="replace").splitlines()
            said = [line for line in lines if several.LEADS in line]
            if daemon.is_alive() and said and several.LEADS_NO_LONGER not in said[-1]:
                return name
        return None

    def engine_file(self, engine, ending):
        return self.dir / self.home[engine] / "engines" / f"{engine}.{ending}"

    def processes(self):
        known = {d.popen.pid: name for name, d in self.daemons.items() if d.popen}
        return witness.marked_processes(os.environ["BATON_CHAOS_MARK"], known, {str(port): name for name, port in self.ports.items()})

    def ranks_of(self, engine):
        """Pids of an engine, its leader first."""
        mine = [p for p in self.processes() if p["engine"] == engine]
        return [p["pid"] for p in sorted(mine, key=lambda p: (p["pid"] != p["session"], p["pid"]))]
