#!/usr/bin/env python3
"""An engine's control routes from another machine: a network namespace of its own that reaches the serving port, without the agent's token."""

import json
import os
import shutil
import subprocess
import unittest
import urllib.parse

from fleet import Fleet, Process, program

HERE, THERE = "10.231.77.1", "10.231.77.2"  # Only in the two namespaces that the test makes.
ASK = """
import http.client, json, sys
host, port, rows = sys.argv[1], int(sys.argv[2]), json.loads(sys.argv[3])
found = []
for method, path, body, token in rows:
    connection = http.client.HTTPConnection(host, port, timeout=60)
    headers = {"Content-Type": "application/json", **({"x-baton-token": token} if token is not None else {})}
    connection.request(method, path, json.dumps(body) if body is not None else None, headers)
    found.append(connection.getresponse().status)
    connection.close()
print(json.dumps(found))
"""
CONTROL = [
    ("POST", "/pause?mode=keep", None), ("POST", "/resume", None), ("POST", "/collective_rpc", {"method": "baton_report"}),
    ("POST", "/init_weight_transfer_engine", {}), ("POST", "/start_weight_update", {}), ("POST", "/update_weights", {}),
    ("POST", "/finish_weight_update", {}), ("POST", "/reset_prefix_cache", None), ("POST", "/sleep", None), ("GET", "/baton/guard", None),
    ("GET", "/docs", None), ("GET", "/no-such-route", None),
]
GENERATE = ("POST", "/v1/completions", {"model": "default", "prompt": "The conductor", "max_tokens": 2})


def ip(*words):
    subprocess.run(["ip", *words], check=True, capture_output=True, timeout=30)


class Namespaces:
    """Two, with one link between them."""

    def __init__(self):
        self.here, self.there = (f"baton-{os.getpid()}-{side}" for side in ("a", "b"))

    def make(self):
        for name in (self.here, self.there):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", self.here, "link", "add", "v", "type", "veth", "peer", "name", "v", "netns", self.there)
        for name, address in ((self.here, HERE), (self.there, THERE)):
            ip("-n", name, "address", "add", f"{address}/30", "dev", "v")
            ip("-n", name, "link", "set", "v", "up")

    def remove(self):
        for name in (self.here, self.there):
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True, timeout=30)


class Inside(Fleet):
    """Its processes are in a namespace; local sockets are not bound to one."""

    def __init__(self, name, groups):
        self.prefix = ["ip", "netns", "exec", name]
        super().__init__(groups, arguments=["--host", "0.0.0.0"])

    def controller_argv(self):
        self.server = f"unix:{self.dir}/controller.sock"
        return [*self.prefix, program("baton-controller"), "--listen", self.server, "--store", f"sqlite:{self.dir}/controller.db"]

    def make_agent(self, name):
        agent = super().make_agent(name)
        return Process(name, [*self.prefix, *agent.argv], agent.log)


@unittest.skipUnless(os.geteuid() == 0 and shutil.which("ip"), "network namespaces need root and iproute2")
class OtherNamespace(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.spaces = Namespaces()
        cls.addClassCleanup(cls.spaces.remove)
        try:
            cls.spaces.make()
        except (OSError, subprocess.CalledProcessError) as error:
            raise unittest.SkipTest(f"network namespaces cannot be made here: {error}") from error
        cls.fleet = Inside(cls.spaces.here, {"node-a": {"g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.publish("v1")
        cls.fleet.wait_serving(1)

    def ask(self, rows):
        """Statuses of requests from the other namespace; a row is (method, path, body, token)."""
        port = urllib.parse.urlsplit(self.fleet.engines["g0.e0"]).port
        argv = ["ip", "netns", "exec", self.spaces.there, "/usr/bin/python3", "-c", ASK, HERE, str(port), json.dumps(rows)]
        done = subprocess.run(argv, capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(0, done.returncode, done.stderr)
        return json.loads(done.stdout)

    def token(self):
        return (self.fleet.dir / "node-a/engines/g0.e0.token").read_text().strip()

    def test_generation_is_answered_and_control_routes_are_refused(self):
        self.assertEqual([200], self.ask([(*GENERATE, None)]), "the serving port is reached")
        for token in (None, "", "0" * len(self.token()), self.token()[:-1]):
            with self.subTest(token=token):
                found = self.ask([(*row, token) for row in CONTROL])
                self.assertEqual([403] * len(CONTROL), found, dict(zip([row[1] for row in CONTROL], found)))
        self.assertEqual([200], self.ask([("GET", "/baton/guard", None, self.token())]), "the token is what is missing")
        self.fleet.wait_serving(1)
        self.assertEqual([200], self.ask([(*GENERATE, None)]), "nothing of that did anything")

    def test_the_token_is_readable_by_its_owner_only(self):
        mode = (self.fleet.dir / "node-a/engines/g0.e0.token").stat().st_mode & 0o777
        self.assertEqual(0o600, mode)


if __name__ == "__main__":
    unittest.main()
