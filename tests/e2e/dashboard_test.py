#!/usr/bin/env python3
"""The dashboard's JSON bridge, as curl and browsers have it: who may, errors, streams, a controller that dies; and its page's modules under node."""

import http.client
import json
import pathlib
import re
import shutil
import socket
import subprocess
import tempfile
import unittest

from fleet import PATIENCE, ROOT, Process, free_ports, program, wait_until
from security_test import identity
from token_test import TokenFleet

PAGE = ROOT / "controller/dashboard/page"
NODE = shutil.which("node")
NO_NODE = "there is no node on the PATH"


class DashboardFleet(TokenFleet):
    """Who is on this machine may look; olga's token may change."""

    def controller_argv(self):
        argv = super().controller_argv()
        self.dashboard = free_ports(1)[0]
        config = json.loads((self.dir / "controller.yaml").read_text())
        config["access"]["local"] = ["viewer"]
        config["dashboard"] = {"listen": f"127.0.0.1:{self.dashboard}"}
        (self.dir / "controller.yaml").write_text(json.dumps(config))
        return argv

    def send(self, method, path, body=None, headers=None):
        """An answer that was not read yet, and its connection; its reader closes both."""
        connection = http.client.HTTPConnection("127.0.0.1", self.dashboard, timeout=60 * PATIENCE)
        given = {"Content-Type": "application/json", **(headers or {})}
        connection.request(method, path, body, {name: value for name, value in given.items() if value is not None})
        return connection.getresponse(), connection

    def ask(self, path, body="{}", method="POST", who=None, **headers):
        """(status, JSON or text)"""
        if who:
            headers["Authorization"] = f"Bearer {self.tokens[who]}"
        answer, connection = self.send(method, path, body, {name.replace("_", "-"): value for name, value in headers.items()})
        text = answer.read().decode()
        connection.close()
        return answer.status, json.loads(text) if answer.headers["Content-Type"] == "application/json" else text


class Stream:
    """Server-sent events, one after the other."""

    def __init__(self, fleet, path, **body):
        self.answer, self.connection = fleet.send("POST", path, json.dumps(body))
        assert (self.answer.status, self.answer.headers["Content-Type"]) == (200, "text/event-stream"), self.answer.status

    def next(self):
        """{"id", "event", "data"} of the next event that is no comment; {} at the end."""
        event = {}
        while line := self.answer.readline().decode():
            name, _, value = line.rstrip("\n").partition(": ")
            if name in ("id", "event", "data"):
                event[name] = json.loads(value) if name == "data" else value
            elif line == "\n" and "data" in event:
                return event
        return {}

    def until(self, what):
        """The events up to the first one that 'what' is true of."""
        found = []
        while event := self.next():
            found.append(event)
            if what(event):
                return found
        raise AssertionError(f"the stream ended: {found}")

    def close(self):
        self.connection.close()


def kind(event):
    return event["data"].get("type", "").removeprefix("WATCH_EVENT_TYPE_")


class Bridge(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = DashboardFleet({"node-a": {"node-a-g0": [1], "node-a-g1": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()
        wait_until("both groups are there", lambda: len(cls.fleet.group_items()) == 2)

    def assertFails(self, answer, status, code, *texts):
        found, body = answer
        self.assertEqual((status, code), (found, body["error"]["code"]), body)
        for text in texts:
            self.assertIn(text, body["error"]["message"])

    # --- what there is ---

    def test_it_says_what_can_be_asked(self):
        status, said = self.fleet.ask("/api/v1", None, "GET")
        methods = {row["path"]: row for row in said["methods"]}
        self.assertEqual((200, "v1"), (status, said["version"]))
        self.assertEqual((True, "baton.v1.WatchGroupsRequest"), (methods["/api/v1/Fleet/Watch"]["streams"], methods["/api/v1/Fleet/Watch"]["request"]))
        self.assertNotIn("/api/v1/AgentSession/Session", methods)

    def test_answers_are_those_of_batonctl(self):
        status, answer = self.fleet.ask("/api/v1/Models/Get", json.dumps({"name": "m"}))
        self.assertEqual(200, status)
        (model,) = self.fleet.get("models")
        self.assertEqual(model["spec"], answer["spec"])
        self.assertEqual(model["meta"]["uid"], answer["meta"]["uid"])
        groups = self.fleet.ask("/api/v1/Fleet/ListGroups", json.dumps({"model": "m", "pageSize": 1}))[1]
        self.assertEqual(["node-a-g0"], [group["meta"]["name"] for group in groups["groups"]])
        rest = self.fleet.ask("/api/v1/Fleet/ListGroups", json.dumps({"model": "m", "pageToken": groups["nextPageToken"]}))[1]
        self.assertEqual(["node-a-g1"], [group["meta"]["name"] for group in rest["groups"]])

    def test_the_page_is_whole(self):
        seen, left = set(), {"/index.html"}
        while left:
            path = left.pop()
            seen.add(path)
            answer, connection = self.fleet.send("GET", path)
            text = answer.read().decode()
            connection.close()
            self.assertEqual((200, (PAGE / path[1:]).read_text()), (answer.status, text), path)
            self.assertIn("default-src 'none'", answer.headers["Content-Security-Policy"])
            named = re.findall(r'(?:src|href)="([\w.]+)"', text) if path.endswith(".html") else re.findall(r'from "\./([\w.]+)"', text)
            left |= {f"/{name}" for name in named} - seen
        self.assertEqual({f"/{path.name}" for path in PAGE.iterdir()} - {"/README.md"}, seen)
        for path in ("/nothing", "/../controller.db", "/api/v1/"):
            self.assertIn(self.fleet.ask(path, None, "GET")[0], (404, 405), path)

    # --- who may ---

    def test_roles_are_those_of_the_table(self):
        cordon = json.dumps({"group": "node-a-g1", "options": {"reason": "by bridge"}})
        self.assertFails(self.fleet.ask("/api/v1/Fleet/Cordon", cordon), 403, "PERMISSION_DENIED", "local may not call")
        self.assertFails(self.fleet.ask("/api/v1/Fleet/Cordon", cordon, who="vera"), 403, "PERMISSION_DENIED", identity("viewer", "vera"))
        self.assertFails(self.fleet.ask("/api/v1/Fleet/Cordon", cordon, who="later"), 401, "UNAUTHENTICATED", "nobody has this token")
        self.assertEqual(200, self.fleet.ask("/api/v1/Fleet/Cordon", cordon, who="olga")[0])
        self.assertEqual(200, self.fleet.ask("/api/v1/Fleet/Uncordon", json.dumps({"group": "node-a-g1"}), who="olga")[0])
        entries = [entry for entry in self.fleet.audit("group/node-a-g1") if entry["method"] == "baton.v1.Fleet/Cordon"]
        self.assertIn((identity("operator", "olga"), "by bridge"), {(entry["principal"], entry.get("reason")) for entry in entries})
        refused = [entry for entry in self.fleet.audit("--refused") if entry["method"] == "baton.v1.Fleet/Cordon" and entry["principal"] == "local"]
        self.assertRegex(refused[0]["address"], r"^127\.0\.0\.1:\d+$")

    def test_streams_are_refused_before_they_begin(self):
        answer = self.fleet.ask("/api/v1/Fleet/Watch", who="later")
        self.assertFails(answer, 401, "UNAUTHENTICATED")

    def test_other_pages_and_passed_on_requests_have_no_rights(self):
        for headers in ({"Host": "evil.example"}, {"Host": f"evil.example:{self.fleet.dashboard}"}, {"Origin": "http://evil.example"}, {"Origin": "null"}):
            self.assertFails(self.fleet.ask("/api/v1/Models/List", **headers), 403, "PERMISSION_DENIED")
        self.assertFails(self.fleet.ask("/api/v1/Models/List", X_Forwarded_For="192.0.2.1"), 403, "PERMISSION_DENIED", "anonymous may not call")
        own = f"127.0.0.1:{self.fleet.dashboard}"
        self.assertEqual(200, self.fleet.ask("/api/v1/Models/List", Host=own, Origin=f"http://{own}")[0])
        self.assertFails(self.fleet.ask("/api/v1/Models/List", Content_Type="text/plain"), 400, "INVALID_ARGUMENT", "application/json")

    def test_nobody_is_let_in_from_elsewhere_by_mistake(self):
        config = json.loads((self.fleet.dir / "controller.yaml").read_text())
        config.update(listen=[f"127.0.0.1:{free_ports(1)[0]}"], store="memory:", dashboard={"listen": f"0.0.0.0:{free_ports(1)[0]}"})
        (self.fleet.dir / "open.yaml").write_text(json.dumps(config))
        done = subprocess.run([program("baton-controller"), "--config", self.fleet.dir / "open.yaml"], capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertIn("dashboard.listen: other machines would reach 0.0.0.0", done.stderr)

    # --- what is wrong ---

    def test_errors_name_what_is_wrong(self):
        self.assertFails(self.fleet.ask("/api/v1/Models/Get", '{"name": "none"}'), 404, "NOT_FOUND", "no model 'none'")
        self.assertFails(self.fleet.ask("/api/v1/Models/Get", '{"nam": "m"}'), 400, "INVALID_ARGUMENT", "nam: there is no such field")
        self.assertFails(self.fleet.ask("/api/v1/Models/Get", '{"name": 1.5}'), 400, "INVALID_ARGUMENT", "name")
        self.assertFails(self.fleet.ask("/api/v1/Models/Get", "{"), 400, "INVALID_ARGUMENT", "no JSON object")
        self.assertFails(self.fleet.ask("/api/v1/Models/Get", "[" * 100000), 400, "INVALID_ARGUMENT", "no JSON object")
        self.assertFails(self.fleet.ask("/api/v1/Models/Nothing"), 501, "UNIMPLEMENTED", "no such method")
        self.assertFails(self.fleet.ask("/api/v1/AgentSession/Session"), 501, "UNIMPLEMENTED", "for gRPC alone")
        self.assertFails(self.fleet.ask("/api/v1/Fleet/Watch", '{"fromRevision": "18446744073709551615"}'), 400, "OUT_OF_RANGE", "of another store")
        self.assertEqual(405, self.fleet.ask("/api/v1/Models/List", None, "GET")[0])
        self.assertEqual(405, self.fleet.ask("/", "{}", "DELETE")[0])

    def test_what_is_too_large_is_refused_before_it_is_read(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.fleet.dashboard, timeout=60 * PATIENCE)
        self.addCleanup(connection.close)
        connection.putrequest("POST", "/api/v1/Models/List")
        connection.putheader("Content-Length", str(1 << 30))
        connection.endheaders()
        self.assertEqual(413, connection.getresponse().status)

    # --- streams ---

    def test_a_watch_tells_each_change(self):
        stream = Stream(self.fleet, "/api/v1/Fleet/Watch", model="m")
        self.addCleanup(stream.close)
        start = stream.until(lambda event: kind(event) == "BOOKMARK")
        self.assertEqual({"node-a-g0", "node-a-g1"}, {event["data"]["group"]["meta"]["name"] for event in start[:-1]})
        self.fleet.ctl("cordon", "group/node-a-g0", "--reason", "watched")
        is_cordon = lambda event: event["data"].get("group", {}).get("cordonReason") == "watched"
        change = stream.until(is_cordon)[-1]
        self.assertEqual(change["id"], change["data"]["revision"])
        self.fleet.ctl("uncordon", "group/node-a-g0")
        again = Stream(self.fleet, "/api/v1/Fleet/Watch", model="m", fromRevision=change["id"])
        self.addCleanup(again.close)
        back = again.until(lambda event: kind(event) == "BOOKMARK")
        self.assertTrue(all(kind(event) != "ADDED" for event in back), back)
        self.assertTrue(any(not event["data"].get("group", {"cordoned": True}).get("cordoned") for event in back), back)

    def test_callers_that_do_nothing_hold_nobody_up(self):
        connected = lambda: self.fleet.agents["node-a"].log.read_text().count("session: connected")
        idle, before = [], connected()
        for text in [b"POST /api/v1/Models/List HTTP/1.1\r\nHo", b"", b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n" * 50]:
            for _ in range(8):
                one = socket.create_connection(("127.0.0.1", self.fleet.dashboard))
                one.sendall(text)
                idle.append(one)
        streams = [Stream(self.fleet, "/api/v1/Fleet/Watch") for _ in range(8)]  # That nobody reads.
        self.fleet.ctl("cordon", "group/node-a-g0", "--reason", "seen by all")
        self.fleet.ctl("uncordon", "group/node-a-g0")
        self.assertEqual(200, self.fleet.ask("/api/v1/Models/List")[0])
        self.assertEqual(before, connected(), self.fleet.agents["node-a"].tail())
        for one in idle + streams:
            one.close()


class Lives(unittest.TestCase):
    """Controllers that end, and pages that see it."""

    def setUp(self):
        self.fleet = DashboardFleet({"node-a": {"node-a-g0": [1]}})
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.wait_connected()
        wait_until("the group is there", lambda: len(self.fleet.group_items()) == 1)

    def modules(self):
        folder = pathlib.Path(tempfile.mkdtemp(prefix="page.", dir=self.fleet.dir))
        for path in PAGE.glob("*.js"):
            shutil.copy(path, folder)
        (folder / "package.json").write_text('{"type": "module"}')
        return folder

    def node(self, *words):
        return [NODE, str(ROOT / "tests/e2e/dashboard_page.mjs"), str(self.modules()), *words]

    def test_it_ends_with_open_streams(self):
        stream = Stream(self.fleet, "/api/v1/Fleet/Watch")
        stream.until(lambda event: kind(event) == "BOOKMARK")
        self.assertEqual(0, self.fleet.controller.stop())
        last = stream.until(lambda event: event.get("event") == "error")[-1]
        self.assertEqual("SHUTTING_DOWN", last["data"]["error"]["reason"])
        self.assertEqual({}, stream.next())
        stream.close()

    @unittest.skipUnless(NODE, NO_NODE)
    def test_a_page_comes_back_after_its_controller_died(self):
        page = Process("page", self.node("follow", f"http://127.0.0.1:{self.fleet.dashboard}"), self.fleet.dir / "page.log")
        self.addCleanup(page.kill)
        page.start()
        lines = lambda: [json.loads(line) for line in page.log.read_text().splitlines() if line.startswith("{")]
        count = lambda **members: sum(members.items() <= line.items() for line in lines())
        wait_until(lambda: f"it follows: {page.tail()}", lambda: count(type="WATCH_EVENT_TYPE_BOOKMARK") > 0)
        self.fleet.controller.kill()
        wait_until(lambda: f"it says that it is not live: {page.tail()}", lambda: count(state="retrying") > 0)
        self.fleet.controller.start()
        self.fleet.wait_controller()
        wait_until(lambda: f"it is live again: {page.tail()}", lambda: count(state="open") > 1)
        wait_until("the group is known again", lambda: len(self.fleet.group_items()) == 1)
        self.fleet.ctl("cordon", "group/node-a-g0")
        wait_until(lambda: f"it sees what happens: {page.tail()}", lambda: count(name="node-a-g0", cordoned=True) > 0)

    @unittest.skipUnless(NODE, NO_NODE)
    def test_pages_say_what_is_stale_why_it_waits_and_where_the_time_went(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        self.fleet.ctl("hold", "model/m", "--reason", "looking closer")
        self.fleet.publish("v3")
        wait_until("the group is behind", lambda: int(self.fleet.group_items()["node-a-g0"].get("lagPublishes", 0)) == 1)
        argv = self.node("live", f"http://127.0.0.1:{self.fleet.dashboard}", "m", "node-a-g0")
        done = subprocess.run(argv, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        shown = json.loads(done.stdout)
        self.assertIn("1 groups: 1 1 publish behind.", shown["fleet"])
        self.assertIn("Waiting: 1 × MODEL_HELD.", shown["fleet"])
        self.assertIn("Held: looking closer", shown["model"])
        self.assertIn("the most stale is 1 behind", shown["model"])
        self.assertRegex(shown["pictures"][0], r"Groups by lag: 0 0 groups, 1 1 groups")
        swap = json.loads(self.fleet.ctl("get", "group/node-a-g0", "-o", "json"))["lastSwap"]
        self.assertIn("v1 → v2: COMMITTED, shut for", shown["group"])
        for phase in ("pause", "apply", "verify", "commit"):
            self.assertGreater(int(swap["phases"][f"{phase}Ns"]), 0)
            self.assertRegex(shown["trace"][0], rf"{phase} [\d.]+ (µs|ms|s)")
        self.assertIn("Models/Hold", shown["audit"])


class Modules(unittest.TestCase):
    @unittest.skipUnless(NODE, NO_NODE)
    def test_what_is_pure(self):
        with tempfile.TemporaryDirectory() as folder:
            for path in PAGE.glob("*.js"):
                shutil.copy(path, folder)
            (pathlib.Path(folder) / "package.json").write_text('{"type": "module"}')
            argv = [NODE, str(ROOT / "tests/e2e/dashboard_page.mjs"), folder, "logic"]
            done = subprocess.run(argv, capture_output=True, text=True, timeout=60 * PATIENCE, check=False)
        self.assertEqual((0, 5), (done.returncode, len(done.stdout.splitlines())), done.stdout + done.stderr)


if __name__ == "__main__":
    unittest.main()
