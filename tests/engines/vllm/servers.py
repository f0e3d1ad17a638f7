"""Starts real vLLM servers for the tests, plays their agent, and speaks HTTP to them."""

import http.client
import json
import mmap
import os
import secrets
import signal
import socket
import struct
import subprocess
import sys
import time

import asking
import leftovers

HERE = os.path.dirname(os.path.abspath(__file__))
START_SECONDS = 600
CALL_SECONDS = 300
SHUT, OPEN, HOLD = 0, 1, 2


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class AgentPage:
    """The agent's side of a guard page."""

    def __init__(self, path):
        self._path = path
        self._memory = None

    def _map(self):
        if self._memory is None:
            with open(self._path, "r+b") as file:
                self._memory = mmap.mmap(file.fileno(), 4096)
        return self._memory

    def boots(self):
        return struct.unpack_from("<Q", self._map(), 128)[0]

    def counters(self):
        """(held, active)"""
        return struct.unpack_from("<II", self._map(), 156)

    def write(self, gate, version, hold_max=8, hold_ms=5000, salt=0):
        memory = self._map()
        (sequence,) = struct.unpack_from("<Q", memory, 8)
        struct.pack_into("<Q", memory, 8, sequence + 1)
        agent = (gate, hold_max, hold_ms, self.boots(), version, salt)
        struct.pack_into("<IIQQQI", memory, 16, *agent)
        struct.pack_into("<Q", memory, 8, sequence + 2)


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {key.lower(): value for key, value in response.getheaders()}
        self.text = response.read().decode()

    @property
    def json(self):
        return json.loads(self.text)


class Server:
    """One guarded vLLM server in a process group of its own."""

    def __init__(self, root, name, checkpoint, ranks=1, backend="baton-faulty", program=None):
        """`program`: another vLLM than that of this Python's environment."""
        self.name, self.ranks, self._stopped = name, ranks, False
        self.folder = os.path.join(root, name)
        os.makedirs(self.folder)
        self.port = free_port()
        self.token = secrets.token_hex(16)
        self.page_path, self.token_path = (os.path.join(self.folder, name) for name in ("page", "token"))
        self.page = AgentPage(self.page_path)
        self.fault_file = os.path.join(self.folder, "fault.json")
        self.log_path = os.path.join(self.folder, "log")
        with open(os.open(self.token_path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="ascii") as out:
            out.write(self.token + "\n")
        command = [
            program or os.path.join(os.path.dirname(sys.executable), "vllm"), "serve", checkpoint,
            "--host", "127.0.0.1", "--port", str(self.port), "--served-model-name", asking.MODEL,
            "--enforce-eager", "--max-model-len", "512", "--dtype", "bfloat16",
            "--tensor-parallel-size", str(ranks), "--middleware", "baton.vllm.Guard",
            "--weight-transfer-config", json.dumps({"backend": backend}),
        ]  # fmt: skip
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen(
                command, stdout=log, stderr=log, env=self._environment(), start_new_session=True
            )

    def _environment(self):
        bind = "nobind" if self.ranks == 1 else "0|1"
        return {
            **os.environ,
            "BATON_FAULT_FILE": self.fault_file,
            "BATON_GUARD_PAGE": self.page_path,
            "BATON_GUARD_TOKEN_FILE": self.token_path,
            "HF_HUB_OFFLINE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.path.join(HERE, "faulty"),
            "VLLM_CPU_KVCACHE_SPACE": "1",
            "VLLM_CPU_OMP_THREADS_BIND": bind,
            "VLLM_NO_USAGE_STATS": "1",
            "VLLM_SERVER_DEV_MODE": "1",
        }

    def log_tail(self):
        with open(self.log_path, encoding="utf-8", errors="replace") as log:
            return "".join(log.readlines()[-40:])

    def wait_ready(self):
        deadline = time.monotonic() + START_SECONDS
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise RuntimeError(f"server {self.name} ended at start:\n{self.log_tail()}")
            try:
                if self.call("GET", "/health").status == 200:
                    return self
            except OSError:
                pass
            time.sleep(0.3)
        raise RuntimeError(f"server {self.name} not ready in {START_SECONDS} s:\n{self.log_tail()}")

    def place(self):
        """Address, page and token file: what `engine check` and the contract's conformance are told."""
        return f"http://127.0.0.1:{self.port}", self.page_path, self.token_path

    def call(self, method, path, body=None, token=False, headers=()):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=CALL_SECONDS)
        try:
            sent = {"content-type": "application/json", **dict(headers)}
            if token:
                sent["x-baton-token"] = self.token
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, sent)
            return Answer(connection.getresponse())
        finally:
            connection.close()

    def control(self, path, body=None):
        """A control call that must answer 200."""
        answer = self.call("POST", path, body, token=True)
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.text}")
        return answer.json if answer.text else None

    def rpc(self, method, **kwargs):
        """/collective_rpc: one result a rank."""
        return self.control("/collective_rpc", {"method": method, "kwargs": kwargs})["results"]

    def fault(self, **fault):
        with open(self.fault_file, "w", encoding="ascii") as out:
            json.dump(fault, out)

    def no_fault(self):
        if os.path.exists(self.fault_file):
            os.unlink(self.fault_file)

    def stop(self):
        """End the whole process group.  May be called again."""
        if self._stopped:
            return
        self._stopped = True
        if self.process.poll() is None:
            leftovers.note(self.process.pid)
            os.killpg(self.process.pid, signal.SIGTERM)
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                pass
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.process.wait(10)
        leftovers.sweep()
