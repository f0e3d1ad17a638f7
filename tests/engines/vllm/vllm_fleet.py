"""A fleet whose engines are real vLLM servers that agents start: what they answer, and how they end.

The rest is tests/e2e/fleet.py, unchanged."""

import http.client
import json
import os
import pathlib
import signal
import sys
import time

import asking
import leftovers

HERE = pathlib.Path(__file__).resolve().parent
sys.path.append(str(HERE.parents[1] / "e2e"))  # Behind this folder, whose names come first.

import fleet  # noqa: E402
import traffic  # noqa: E402

# Two servers boot at once on two cores that other work may use, too.  Two ranks that wait for each other
# in turns then need a second for a token: a probe of 16 tokens takes 20 s, and a swap has several minutes.
BOOT_SECONDS = 600
SWAP_SECONDS = 480
SWAP_DEADLINE = "240s"
PATIENCE_SECONDS = 600
END_SECONDS = 60
TRAFFIC_TOKENS = 8


def exec_of(port, ranks):
    """recreate.exec of an agent's configuration, as deploy/docs/vllm.md shows it."""
    command = [
        os.path.join(os.path.dirname(sys.executable), "vllm"), "serve", "{checkpoint}",
        "--host", "127.0.0.1", "--port", str(port), "--served-model-name", asking.MODEL,
        "--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16",
        "--tensor-parallel-size", str(ranks), "--middleware", "baton.vllm.Guard",
        "--weight-transfer-config", '{"backend":"baton"}',
    ]  # fmt: skip
    bind = "nobind" if ranks == 1 else "0|1"
    env = [
        "VLLM_SERVER_DEV_MODE=1", "VLLM_NO_USAGE_STATS=1", "HF_HUB_OFFLINE=1",
        "VLLM_CPU_KVCACHE_SPACE=1", f"VLLM_CPU_OMP_THREADS_BIND={bind}", "OMP_NUM_THREADS=1",
    ]  # fmt: skip
    return {"command": command, "env": env}


class VllmFleet(fleet.Fleet):
    """As its base: {agent: {group: [ranks of engine 0, ...]}}."""

    @staticmethod
    def default_update():
        return {**fleet.Fleet.default_update(), "swapDeadline": SWAP_DEADLINE}

    def engine_config(self, agent, group, index, ranks):
        port = fleet.free_ports(1)[0]
        url = f"http://127.0.0.1:{port}"
        self.engines[f"{group}.e{index}"] = url
        return {"name": f"e{index}", "kind": "vllm", "url": url, "recreate": {"exec": exec_of(port, ranks)}}

    def ranks_of(self, engine):
        group, index = engine.split(".e")
        return next(g[group] for g in self.groups.values() if group in g)[int(index)]

    def secret_files(self, engine):
        """(page, token file) of an engine."""
        group = engine.split(".")[0]
        agent = next(agent for agent, groups in self.groups.items() if group in groups)
        folder = self.dir / agent / "engines"
        return folder / f"{engine}.page", folder / f"{engine}.token"

    def landing(self, engine, digest):
        """Where a version lies on the engine's node."""
        return self.shm / self.secret_files(engine)[0].parts[-3] / digest

    def call(self, engine, method, path, body=None):
        """The JSON of a call with the agent's token, which passes the gate; it must be answered 200."""
        token = self.secret_files(engine)[1].read_text(encoding="ascii").strip()
        connection = http.client.HTTPConnection(self.engines[engine].removeprefix("http://"), timeout=PATIENCE_SECONDS)
        try:
            headers = {"content-type": "application/json", "x-baton-token": token}
            text = json.dumps(body) if body is not None else None
            connection.request(method, path, text, headers)
            response = connection.getresponse()
            text = response.read()
            assert response.status == 200, (engine, path, response.status, text[:500])
            return json.loads(text)
        finally:
            connection.close()

    def answers(self, engine):
        """What the engine says to every prompt."""
        return [asking.said(self.call(engine, "POST", "/v1/completions", asking.body(p))) for p in asking.PROMPTS]

    def all_answers(self):
        return {engine: self.answers(engine) for engine in self.engines}

    def traffic_answers(self):
        """{(engine, prompt of the traffic): what it must be answered now}"""
        found = {}
        for engine in self.engines:
            for prompt in traffic.PROMPTS:
                body = {**asking.body(prompt, TRAFFIC_TOKENS), "ignore_eos": False}
                found[engine, prompt] = asking.said(self.call(engine, "POST", "/v1/completions", body))
        return found

    def boot_ids(self):
        """{engine: its incarnation}"""
        return {e: self.call(e, "GET", "/baton/guard")["bootId"] for e in self.engines}

    def kill_engines(self):
        """As a crash of each server's first process; the agent ends the others."""
        for pid in self.engine_pids().values():
            leftovers.note(pid)
            os.kill(pid, signal.SIGKILL)

    def rank_pids(self, engine):
        """The processes of an engine's ranks, as vLLM names them."""
        pids = self.session_pids(self.engine_pids()[engine])
        return [pid for pid in sorted(pids) if command_of(pid).startswith("VLLM::Worker")]

    def tails(self):
        logs = sorted(p for agent in self.groups for p in (self.dir / agent / "engines").glob("*.log"))
        tails = [f"--- {p.name}\n" + "\n".join(p.read_text(errors="replace").splitlines()[-15:]) for p in logs]
        return "\n".join([super().tails(), *tails])

    def close(self):
        """Servers are asked first: a killed one leaves its shared memory behind."""
        for agent in self.agents.values():
            agent.kill()
        leaders = [pid for pid in self.engine_pids().values() if os.path.exists(f"/proc/{pid}")]
        for pid in leaders:
            leftovers.note(pid)
            os.kill(pid, signal.SIGTERM)
        deadline = time.monotonic() + END_SECONDS
        while any(map(is_running, leaders)) and time.monotonic() < deadline:
            time.sleep(0.1)
        super().close()
        leftovers.sweep()


def command_of(pid):
    try:
        return pathlib.Path(f"/proc/{pid}/cmdline").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def is_running(pid):
    """A process that ended and that nobody waited for does not run."""
    try:
        status = pathlib.Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] not in "ZX"
