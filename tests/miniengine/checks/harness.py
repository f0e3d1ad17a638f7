"""Starting a miniengine, talking to it, making landings, and counting checks."""

import http.client
import json
import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback

DEADLINE_S = 60
STILL_S = 0.3  # Many steps of a slow engine.
# Options of an engine whose steps take long until fast(): what is to happen while it answers happens then, on any machine.
SLOW = ("--fault", '{"kind": "slow", "phase": "step", "ms": 20, "sticky": true}')
TOKEN = "check-token"
GATES = {"shut": 0, "open": 1, "hold": 2}
PAGE_BYTES = 4096


class Setup:
    """Paths of the run; filled by main."""

    engine = seal = data = scratch = None
    expected = None
    digests = {}


def until(what, condition):
    """Waits for a condition, within a bound."""
    end = time.monotonic() + DEADLINE_S
    while time.monotonic() < end:
        found = condition()
        if found:
            return found
        time.sleep(0.003)
    raise AssertionError(f"waited {DEADLINE_S} s for: {what}")


def equal(got, wanted, what=""):
    if got != wanted:
        raise AssertionError(f"{what}: got {got!r}, wanted {wanted!r}")


def close(got, wanted, tolerance, what=""):
    worst = max(abs(a - b) for a, b in zip(got, wanted, strict=True))
    if worst > tolerance:
        raise AssertionError(f"{what}: off by {worst}, at most {tolerance} is right")


class Answer:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    def json(self):
        return json.loads(self.body)

    def ok(self):
        equal(self.status, 200, self.body[:300])
        return self.json()


class Page:
    """The agent's side of the guard page."""

    def __init__(self, path):
        self.path = path
        self.sequence = 0

    def _patch(self, offset, layout, *values):
        with open(self.path, "r+b") as page:
            page.seek(offset)
            page.write(struct.pack(layout, *values))

    def read(self, offset, layout):
        with open(self.path, "rb") as page:
            page.seek(offset)
            return struct.unpack(layout, page.read(struct.calcsize(layout)))

    def boots(self):
        return self.read(128, "<Q")[0]

    def held(self):
        return self.read(156, "<I")[0]

    def active(self):
        return self.read(160, "<I")[0]

    def set(self, gate, version=0, hold_max=8, hold_ms=20000, opened_for=None):
        opened = self.boots() if opened_for is None else opened_for
        self._patch(8, "<Q", self.sequence + 1)
        self._patch(16, "<IIQQQ", GATES[gate], hold_max, hold_ms, opened, version)
        self.sequence += 2
        self._patch(8, "<Q", self.sequence)


class Engine:
    """One running miniengine; a context manager that ends it."""

    def __init__(self, version="v1", ranks=1, guarded=False, options=(), environment=None):
        self.page = None
        env = {k: v for k, v in os.environ.items() if not k.startswith("BATON_GUARD")}
        if guarded:
            folder = tempfile.mkdtemp(dir=Setup.scratch)
            self.page = Page(os.path.join(folder, "page"))
            env["BATON_GUARD_PAGE"] = self.page.path
            env["BATON_GUARD_TOKEN_FILE"] = os.path.join(folder, "token")
            with open(env["BATON_GUARD_TOKEN_FILE"], "w", encoding="utf-8") as out:
                out.write(TOKEN + "\n")
        env.update(environment or {})
        self.env = env
        model = version if os.path.isabs(version) else checkpoint(version)
        self.command = [Setup.engine, "--model", model, "--served-model-name", "m", "--port", "0",
                        "--tensor-parallel-size", str(ranks), *options]
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command, env=self.env, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.startswith("listening on "):
            raise AssertionError("no start: " + self.process.stderr.read())
        host, port = line.split()[-1].split(":")
        self.address = (host, int(port))

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        self.kill()

    def kill(self):
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.process.stderr.close()

    def fast(self):
        """Ends SLOW."""
        self.call("DELETE", "/miniengine/faults", headers={"x-baton-token": TOKEN}).ok()

    def call(self, method, path, body=None, headers=None, timeout=DEADLINE_S):
        connection = http.client.HTTPConnection(*self.address, timeout=timeout)
        text = body if body is None or isinstance(body, (str, bytes)) else json.dumps(body)
        try:
            connection.request(method, path, body=text, headers=headers or {})
            got = connection.getresponse()
            return Answer(got.status, {k.lower(): v for k, v in got.getheaders()}, got.read().decode())
        finally:
            connection.close()

    def get(self, path, **more):
        return self.call("GET", path, **more)

    def post(self, path, body=None, **more):
        return self.call("POST", path, body, **more)

    def rpc(self, method, **kwargs):
        return self.post("/collective_rpc", {"method": method, "kwargs": kwargs}).ok()["results"]

    def fault(self, **fields):
        return self.post("/miniengine/faults", fields).ok()

    def generate(self, prompt, tokens=40, headers=None, **more):
        body = {"model": "m", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1,
                "ignore_eos": True, "return_token_ids": True, **more}
        return self.post("/v1/completions", body, headers=headers)

    def tokens(self, prompt, tokens=40, **more):
        """(token ids, log-probabilities) of a greedy answer."""
        choice = self.generate(prompt, tokens, **more).ok()["choices"][0]
        return choice["token_ids"], choice["logprobs"]["token_logprobs"]

    def metric(self, name):
        for line in self.get("/metrics").body.splitlines():
            if line.startswith(name + "{"):
                return float(line.split()[-1])
        raise AssertionError(f"no metric {name}")

    def children(self):
        pid = self.process.pid
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            return [int(child) for child in file.read().split()]


class Stream:
    """A streaming request, read by a thread of its own."""

    def __init__(self, engine, prompt, tokens, headers=None, **more):
        body = {"prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1, "stream": True,
                "ignore_eos": True, "return_token_ids": True, **more}
        self.connection = http.client.HTTPConnection(*engine.address, timeout=DEADLINE_S)
        self.connection.request("POST", "/v1/completions", json.dumps(body), headers or {})
        self.ids, self.logprobs, self.text = [], [], ""
        self.reason = self.error = self.response = None
        self.done = False
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()

    def _read(self):
        try:
            self.response = self.connection.getresponse()
            for line in self.response:
                self._take(line.decode().strip())
        except (OSError, http.client.HTTPException, ValueError, AttributeError) as error:
            self.error = error

    def _take(self, line):
        if line == "data: [DONE]":
            self.done = True
        elif line.startswith("data: "):
            body = json.loads(line[6:])
            if "error" in body:
                self.error = body["error"]
                return
            for choice in body["choices"]:
                self.ids += choice["token_ids"]
                self.logprobs += choice["logprobs"]["token_logprobs"]
                self.text += choice["text"]
                self.reason = choice["finish_reason"]

    def wait_for(self, count):
        until(f"{count} tokens", lambda: len(self.ids) >= count or self.done or self.error)
        return self

    def still(self):
        """How many tokens had come when none came any more: the last ones may be under way when a pause is answered."""
        seen = [-1, 0.0]

        def is_still():
            if len(self.ids) != seen[0]:
                seen[:] = len(self.ids), time.monotonic()
            return time.monotonic() - seen[1] > STILL_S

        until("no more tokens", is_still)
        return seen[0]

    def end(self):
        self.thread.join(DEADLINE_S)
        equal(self.thread.is_alive(), False, "the stream ends")
        return self

    def leave(self):
        """The client goes away."""
        if self.connection.sock is not None:
            self.connection.sock.shutdown(socket.SHUT_RDWR)
        self.connection.close()


def checkpoint(version):
    return os.path.join(Setup.data, "qwen3-tiny", version)


def expected(version, prompt):
    found = Setup.expected["versions"][version][prompt]
    return found["tokens"], found["logprobs"]


def prompt(name):
    return Setup.expected["prompts"][name]


def seal(folder):
    done = subprocess.run([Setup.seal, folder], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def landing(version):
    """(directory, digest) of a sealed copy of a checkpoint, made once."""
    folder = os.path.join(Setup.scratch, "landing-" + version)
    if version not in Setup.digests:
        shutil.copytree(checkpoint(version), folder)
        Setup.digests[version] = seal(folder)
    return folder, Setup.digests[version]


def copy_landing(version, name):
    """A copy that a check may damage."""
    folder = os.path.join(Setup.scratch, name)
    shutil.copytree(landing(version)[0], folder)
    return folder


class Swap:
    """The agent's calls, in the contract's order, on one engine."""

    step = 0

    def __init__(self, engine, version, headers=None, folder=None, digest=None):
        self.engine, self.version, self.headers = engine, version, headers
        self.folder, self.digest = landing(version)
        self.folder, self.digest = folder or self.folder, digest or self.digest
        Swap.step += 1
        self.fence = [1, 1, 1, Swap.step, 0]

    def post(self, path, body=None):
        return self.engine.post(path, body, headers=self.headers)

    def stage(self):
        self.post("/collective_rpc", {"method": "baton_fence", "kwargs": {"fence": self.fence}}).ok()
        self.post("/start_weight_update").ok()
        self.post("/update_weights", {"update_info": {"landing": self.folder, "fence": self.fence,
                                                      "version_digest": self.digest}}).ok()
        return self.report("staged")

    def finish(self):
        self.post("/finish_weight_update").ok()
        return self.report("applied")

    def report(self, part):
        answer = self.post("/collective_rpc", {"method": "baton_report"}).ok()
        return [rank[part] for rank in answer["results"]]

    def pause(self, mode="keep", clear="true"):
        self.post(f"/pause?mode={mode}&clear_cache={clear}").ok()
        equal(self.engine.get("/is_paused", headers=self.headers).ok(), {"is_paused": True}, "pause")

    def resume(self):
        self.post("/resume").ok()

    def good(self, outcomes):
        for outcome in outcomes:
            equal(outcome["ok"], True, outcome)
            equal(outcome["version_digest"], self.digest, outcome)

    def run(self, mode="keep", clear="true"):
        """A whole swap that must succeed."""
        self.pause(mode, clear)
        self.good(self.stage())
        self.good(self.finish())
        self.post("/update_weight_version", {"new_version": self.version}).ok()
        self.resume()
        return self


class Counter:
    """Prints a line for each check and counts."""

    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def run(self, check, wanted):
        name = check.__name__.removeprefix("check_").replace("_", " ")
        if wanted and wanted not in name:
            return
        began = time.monotonic()
        try:
            check()
        except Exception:
            self.failed += 1
            print("  " + traceback.format_exc().replace("\n", "\n  "))
            print(f"not ok - {name}", flush=True)
            return
        self.passed += 1
        print(f"ok - {name} ({time.monotonic() - began:.2f} s)", flush=True)

    def close(self):
        print(f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped")
        sys.exit(0 if self.passed > 0 and self.failed == 0 else 1)


def terminate(engine):
    engine.process.send_signal(signal.SIGTERM)
    return engine.process.wait(DEADLINE_S)
