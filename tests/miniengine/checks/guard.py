"""The guard, row by row of the engine contract, section 1."""

import os
import threading

from harness import SLOW, TOKEN, Engine, Stream, Swap, equal, prompt, until

AGENT = {"x-baton-token": TOKEN}


def _refused(answer, code):
    equal((answer.status, answer.json()["error"]["type"], answer.json()["error"]["code"]),
          (code, "baton_guard", code), "refusal")


def check_an_engine_boots_shut():
    with Engine("v1", guarded=True) as engine:
        answer = engine.generate(prompt("river"), 3)
        _refused(answer, 503)
        equal(answer.headers["retry-after"], "1", "retry-after")
        for path in ("/health", "/ping", "/metrics", "/version", "/v1/models", "/load"):
            equal(engine.get(path).status, 200, path)
        equal(engine.page.boots(), 1, "boots")
        equal(engine.page.read(0, "<II"), (0x31504742, 1), "magic and layout")
        equal(engine.page.read(152, "<I")[0], engine.process.pid, "pid")
        equal(os.stat(engine.page.path).st_mode & 0o777, 0o600, "mode")


def check_the_token_passes_everywhere():
    with Engine("v1", guarded=True) as engine:
        equal(engine.generate(prompt("river"), 3, headers=AGENT).status, 200, "a probe")
        for method, path in (("POST", "/pause"), ("GET", "/is_paused"), ("GET", "/docs"), ("GET", "/baton/guard"),
                             ("POST", "/collective_rpc"), ("GET", "/weight_info"), ("GET", "/miniengine/faults")):
            _refused(engine.call(method, path), 403)
            _refused(engine.call(method, path, headers={"x-baton-token": TOKEN[:-1]}), 403)
            _refused(engine.call(method, path, headers={"x-baton-token": TOKEN + "x"}), 403)
            equal(engine.call(method, path, headers=AGENT).status != 403, True, path)


def check_the_guard_tells_its_view():
    with Engine("v1", guarded=True) as engine:
        def view():
            return engine.get("/baton/guard", headers=AGENT).ok()
        found = view()
        boot = bytes(engine.page.read(136, "<16s")[0]).hex()
        equal(found, {"guard": 1, "gate": "shut", "boots": 1, "bootId": boot, "version": 0, "salt": False, "held": 0,
                      "active": 0}, "shut")
        engine.page.set("open", version=7)
        equal((view()["gate"], view()["version"]), ("open", 7), "open")
        engine.page.set("hold", version=7)
        equal(view()["gate"], "hold", "hold")


def check_a_gate_opened_for_another_incarnation_is_shut():
    with Engine("v1", guarded=True) as engine:
        engine.page.set("open", version=1)
        equal(engine.generate(prompt("river"), 3).status, 200, "open")
        boot = engine.page.read(136, "<16s")
        engine.kill()
        engine.start()
        equal(engine.page.boots(), 2, "boots rose")
        equal(engine.page.read(136, "<16s") != boot, True, "a new boot id")
        _refused(engine.generate(prompt("river"), 3), 503)
        engine.page.set("hold", version=1, opened_for=1)
        _refused(engine.generate(prompt("river"), 3), 503)
        engine.page.set("open", version=1)
        equal(engine.generate(prompt("river"), 3).status, 200, "open again")


def check_versions_on_answers_and_demands():
    with Engine("v1", guarded=True) as engine:
        engine.page.set("open", version=7)
        answer = engine.generate(prompt("river"), 3)
        equal((answer.headers["x-baton-version"], answer.headers["x-baton-version-end"]), ("7", "7"), "answer")
        stream = Stream(engine, prompt("river"), 3).end()
        equal(stream.response.getheader("x-baton-version"), "7", "stream")
        equal(stream.response.getheader("x-baton-version-end"), None, "a stream's head knows no end")
        rows = [("min", "7", 200), ("min", "8", 409), ("exact", "7", 200), ("exact", "6", 409), ("min", "-1", 400),
                ("exact", "x", 400), ("min", "", 400), ("min", "99999999999999999999", 400)]
        for kind, value, status in rows:
            got = engine.generate(prompt("river"), 3, headers={f"x-baton-{kind}-version": value})
            equal(got.status, status, (kind, value))
            equal(got.headers["x-baton-version"], "7", "every answer tells")
            if status != 200:
                _refused(got, status)


def check_hold_waits_until_the_gate_opens():
    with Engine("v1", guarded=True) as engine:
        engine.page.set("hold", version=1)
        stream = Stream(engine, prompt("river"), 3)
        late = Stream(engine, prompt("river"), 3, headers={"x-baton-exact-version": "1"})
        until("held", lambda: engine.page.held() == 2)
        equal(stream.response, None, "no head yet")
        equal(engine.generate(prompt("river"), 3, headers=AGENT).status, 200, "a probe passes")
        engine.page.set("open", version=2)
        equal((len(stream.end().ids), stream.response.getheader("x-baton-version")), (3, "2"), "passed")
        late.end()
        equal(late.response.status, 409, "the version is looked at after the hold")
        until("places are free again", lambda: (engine.page.held(), engine.page.active()) == (0, 0))


def check_hold_is_bounded_in_number_and_time():
    with Engine("v1", guarded=True) as engine:
        engine.page.set("hold", version=1, hold_max=1)
        stream = Stream(engine, prompt("river"), 3)
        until("held", lambda: engine.page.held() == 1)
        _refused(engine.generate(prompt("river"), 3), 503)
        stream.leave()
        until("its place is free", lambda: engine.page.held() == 0)
        engine.page.set("hold", version=1, hold_ms=30)
        answer = engine.generate(prompt("river"), 3)
        _refused(answer, 503)
        equal(answer.headers["retry-after"], "1", "retry-after")
        held = Stream(engine, prompt("river"), 3)
        engine.page.set("hold", version=1)
        other = Stream(engine, prompt("river"), 3)
        until("held", lambda: engine.page.held() >= 1)
        engine.page.set("shut", version=1)
        equal((held.end().response.status, other.end().response.status), (503, 503), "shut ends the wait")


def check_active_counts_who_is_inside():
    with Engine("v1", guarded=True, options=SLOW) as engine:
        engine.page.set("open", version=1)
        streams = [Stream(engine, prompt("river"), 1500).wait_for(3) for _ in range(3)]
        equal(engine.page.active(), 3, "inside")
        streams[0].leave()
        until("one left", lambda: engine.page.active() == 2)
        engine.post("/abort_requests", {}, headers=AGENT).ok()
        for stream in streams[1:]:
            equal(stream.end().reason, "abort", "ended")
        until("all left", lambda: engine.page.active() == 0)


def check_a_torn_or_foreign_page_is_shut():
    with Engine("v1", guarded=True) as engine:
        engine.page.set("open", version=1)
        engine.page._patch(8, "<Q", engine.page.sequence + 1)  # As if the agent died while it wrote.
        _refused(engine.generate(prompt("river"), 3), 503)
        engine.page.set("open", version=1)
        equal(engine.generate(prompt("river"), 3).status, 200, "open")
        engine.page._patch(4, "<I", 2)
        _refused(engine.generate(prompt("river"), 3), 503)
        before = engine.page.read(128, "<QQQ")
        engine.kill()
        engine.start()
        equal(engine.page.read(128, "<QQQ"), before, "another layout is not written to")
        _refused(engine.generate(prompt("river"), 3), 503)


def check_without_a_token_file_no_control_route_opens():
    with Engine("v1", guarded=True, environment={"BATON_GUARD_TOKEN_FILE": "/nonexistent/token"}) as engine:
        _refused(engine.get("/is_paused", headers=AGENT), 403)
        _refused(engine.get("/is_paused", headers={"x-baton-token": ""}), 403)
        engine.page.set("open", version=1)
        equal(engine.generate(prompt("river"), 3).status, 200, "generation does not need it")


def check_no_torn_reading_while_the_agent_writes():
    with Engine("v1", guarded=True) as engine:
        stop = threading.Event()

        def write():
            value = 0
            while not stop.is_set():
                value += 1
                engine.page.set("open", version=value, hold_max=value)
        writer = threading.Thread(target=write)
        writer.start()
        try:
            last = 0
            for _ in range(60):
                version = engine.get("/baton/guard", headers=AGENT).ok()["version"]
                equal(version >= last or version == 0, True, "never backwards")
                last = max(last, version)
        finally:
            stop.set()
            writer.join()


def check_a_swap_behind_the_guard_fails_no_request():
    with Engine("v1", ranks=2, guarded=True, options=SLOW) as engine:
        engine.page.set("open", version=1)
        running = Stream(engine, prompt("river"), 300).wait_for(5)
        engine.page.set("hold", version=1)
        held = Stream(engine, prompt("river"), 20)
        until("held", lambda: engine.page.held() == 1)
        Swap(engine, "v2", headers=AGENT).run()
        engine.fast()
        engine.page.set("open", version=2)
        equal((running.end().reason, held.end().reason), ("length", "length"), "both ended well")
        equal(held.response.getheader("x-baton-version"), "2", "the held one is the new version's")
        equal(engine.page.held(), 0, "nobody waits")


CHECKS = [value for name, value in list(globals().items()) if name.startswith("check_")]
