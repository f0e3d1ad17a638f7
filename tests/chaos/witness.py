"""What chaos sees by itself: clients' answers, engines' pages and control routes, /proc. Nothing here goes through the product's own reports."""

import http.client
import json
import os
import random
import struct
import threading
import time

PROMPT_KEYS = ("probe", "long", "baton")
OUTAGE_SEEN_S = 0.1  # A gate's change is seen a little later than it is made.
GATES = {0: "shut", 1: "open", 2: "hold"}


def post(port, path, body, headers=None, timeout=150):
    """(status, headers with small names, body) of one request to an engine."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=timeout)
    try:
        method = "GET" if body is None else "POST"
        connection.request(method, path, None if body is None else json.dumps(body), {"Content-Type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()
    finally:
        connection.close()


def complete(port, prompt, tokens, **more):
    """One greedy completion as a record of it; never raises."""
    answer = {"prompt": prompt, "asked": tokens, "began": time.monotonic()}
    try:
        body = {"model": "default", "prompt": prompt, "max_tokens": tokens, "temperature": 0, "logprobs": 1, **more}
        status, headers, raw = post(port, "/v1/completions", body)
        answer.update(status=status, version=headers.get("x-baton-version"), version_end=headers.get("x-baton-version-end"))
        if status == 200:
            choice = json.loads(raw)["choices"][0]
            answer.update(text=choice["text"], logprobs=choice["logprobs"]["token_logprobs"], finish=choice["finish_reason"])
        else:
            answer["error"] = raw.decode("utf-8", "replace")[:300]
    except (OSError, http.client.HTTPException, ValueError, KeyError) as error:
        answer.update(status=0, error=f"{type(error).__name__}: {error}")
    answer["ended"] = time.monotonic()
    return answer


class Clients:
    """Threads that ask all the time, for each engine one a length of answers: long ones, which swaps fall into, and short ones."""

    def __init__(self, engines, prompts, tokens=(40, 12), pause=(0.02, 0.08), enter=None):
        """enter(engine) is called first by each thread: it brings it to where the engine can be reached."""
        self.answers, self.lock, self.stopping = [], threading.Lock(), threading.Event()
        self.prompts, self.pause, self.enter = prompts, pause, enter
        self.threads = [
            threading.Thread(target=self.ask, args=(group, name, port, count), daemon=True)
            for group, name, port in engines
            for count in tokens
        ]
        for thread in self.threads:
            thread.start()

    def ask(self, group, engine, port, tokens):
        if self.enter:
            self.enter(engine)
        rng, turn = random.Random(f"{engine}/{tokens}"), 0
        while not self.stopping.is_set():
            prompt = self.prompts[PROMPT_KEYS[turn % len(PROMPT_KEYS)]]
            turn += 1
            answer = {"group": group, "engine": engine, **complete(port, prompt, tokens)}
            with self.lock:
                self.answers.append(answer)
            self.stopping.wait(rng.uniform(*self.pause) if answer["status"] == 200 else 0.05)

    def count(self):
        with self.lock:
            return len(self.answers)

    def since(self, start):
        with self.lock:
            return self.answers[start:]

    def stop(self, seconds=160):
        self.stopping.set()
        for thread in self.threads:
            thread.join(seconds)
        return not any(thread.is_alive() for thread in self.threads)


def read_page(path):
    """(gate as it counts, version, boots) of an engine's page; all shut without one."""
    try:
        with open(path, "rb") as file:
            raw = file.read(164)
    except OSError:
        raw = b""
    if len(raw) < 164 or struct.unpack_from("<II", raw, 0) != (0x31504742, 1):
        return "shut", 0, 0
    (gate,) = struct.unpack_from("<I", raw, 16)
    opened_for, version = struct.unpack_from("<QQ", raw, 32)
    (boots,) = struct.unpack_from("<Q", raw, 128)
    return GATES.get(gate, "shut") if opened_for == boots else "shut", version, boots


class Pages:
    """Looks at all pages every few milliseconds and keeps each change: (when, engine, gate, version, boots, when it was last seen as before)."""

    def __init__(self, paths):
        self.paths, self.changes, self.now, self.looked = paths, [], {}, {}
        self.stopping = threading.Event()
        self.look()
        self.thread = threading.Thread(target=self.watch, daemon=True)
        self.thread.start()

    def look(self):
        for engine, path in self.paths.items():
            began, seen = time.monotonic(), read_page(path)
            if self.now.get(engine) != seen:
                self.now[engine] = seen
                self.changes.append((time.monotonic(), engine, *seen, self.looked.get(engine, began)))
            self.looked[engine] = began

    def watch(self):
        while not self.stopping.wait(0.004):
            self.look()

    def stop(self):
        self.stopping.set()
        self.thread.join()

    def closed(self, since):
        """[(engine, from, to)] of the times at which an engine's gate was not open, of those that ended after 'since'."""
        begun, spans = {}, []
        for when, engine, gate, _, _, _ in list(self.changes):
            if gate == "open":
                if engine in begun and when >= since:
                    spans.append((engine, begun[engine], when))
                begun.pop(engine, None)
            else:
                begun.setdefault(engine, when)
        return spans + [(engine, when, time.monotonic()) for engine, when in begun.items()]

    def holds(self, since, outages, within):
        """closed() as the judge wants it, without what an outage of the group explains; 'within' says how long each may last."""
        found = []
        for engine, began, ended in self.closed(since):
            group = engine.split(".", maxsplit=1)[0]
            if not any(o["group"] == group and began <= o["until"] + OUTAGE_SEEN_S and ended >= o["since"] for o in outages):
                found.append({"group": group, "since": began, "until": ended, "within": within})
        return found

    def back(self, engines, boots, since):
        """When, after 'since', all of these engines were open at once and each had booted more often than 'boots' says; None: not yet."""
        state = {}
        for when, engine, gate, _, booted, _ in list(self.changes):
            state[engine] = gate == "open" and booted > boots.get(engine, -1)
            if when > since and all(state.get(e) for e in engines):
                return when
        return None


def look_at_engine(port, token, prompts):
    """An engine, asked directly: its guard, its label, and what it says, from its prefix cache and without."""
    facts = {"answers": []}
    headers = {"x-baton-token": token}
    try:
        facts["guard"] = json.loads(post(port, "/baton/guard", None, headers, 20)[2])
        if facts["guard"].get("gate") != "open":
            return facts
        facts["label"] = json.loads(post(port, "/weight_info", None, headers, 20)[2]).get("weight_version")
    except (OSError, http.client.HTTPException, ValueError) as error:
        facts["error"] = f"{type(error).__name__}: {error}"
        return facts
    for key in ("probe", "long"):
        facts["answers"].append(complete(port, prompts[key], 40))
        facts["answers"].append(complete(port, prompts[key], 40, cache_salt=os.urandom(8).hex()))
    for answer in facts["answers"]:
        answer.setdefault("text", "")
        answer.setdefault("logprobs", [])
    return facts


def read_proc(pid, what):
    try:
        with open(f"/proc/{pid}/{what}", "rb") as file:
            return file.read()
    except OSError:
        return b""


def is_alive(pid):
    state = read_proc(pid, "stat").rpartition(b")")[2].split()
    return bool(state) and state[0] not in (b"Z", b"X")


def marked_processes(mark, known, ports):
    """Every living process that carries the mark: what it is by 'known' {pid: name} or by the port in its command line."""
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdigit() or int(entry) == os.getpid() or mark.encode() not in read_proc(entry, "environ") or not is_alive(entry):
            continue
        pid, words = int(entry), read_proc(entry, "cmdline").decode("utf-8", "replace").split("\0")
        port = words[words.index("--port") + 1] if "--port" in words else ""
        engine = ports.get(port, "")
        try:
            session = os.getsid(pid)
        except OSError:
            continue
        what = "engine" if engine else known.get(pid, "other")
        found.append({"pid": pid, "session": session, "what": what, "engine": engine, "command": " ".join(words)[:160]})
    return found
