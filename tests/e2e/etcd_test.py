#!/usr/bin/env python3
"""The controller's store is in etcd: a roll, a restart of the controller, etcd gone and back; no secret in any log."""

import shutil
import unittest

from fleet import Fleet, Process, check_answers, free_ports, read_answers, wait_until
from several import make_etcd, post, serves

PASSWORD = "hunter2-of-etcd"


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class Etcd(unittest.TestCase):
    def setUp(self):
        self.fleet = Fleet({"a": {"one": [1], "two": [1]}}, times={"retryFirst": "100ms", "retryMax": "1s"})
        self.addCleanup(self.fleet.close)
        self.etcd, self.port = make_etcd(self.fleet.dir, self.fleet.shm)
        url = f"http://127.0.0.1:{self.port}"
        self.addCleanup(self.etcd.kill)
        self.etcd.start()
        wait_until("etcd serves", lambda: serves(self.port))
        self.make_user()
        password = self.fleet.dir / "password"
        password.write_text(PASSWORD + "\n")
        address = f"etcd:{url}/baton?user=baton&passwordFile={password}&timeoutMs=4000"
        argv = self.fleet.controller_argv()
        argv[argv.index("--store") + 1] = address
        self.fleet.controller = Process("controller", [*argv, "--log-level", "debug"], self.fleet.dir / "controller.log")

    def make_user(self):
        post(self.port, "auth/user/add", '{"name":"root","password":"r"}')
        post(self.port, "auth/role/add", '{"name":"root"}')
        post(self.port, "auth/user/grant", '{"user":"root","role":"root"}')
        post(self.port, "auth/user/add", f'{{"name":"baton","password":"{PASSWORD}"}}')
        post(self.port, "auth/user/grant", '{"user":"baton","role":"root"}')
        post(self.port, "auth/enable", "{}")

    def check_taken_over(self):
        """A second controller takes the store; the first one ends at its next write and does not take it back."""
        argv = list(self.fleet.controller.argv)
        argv[argv.index("--listen") + 1] = f"127.0.0.1:{free_ports(1)[0]}"
        second = Process("second", argv, self.fleet.dir / "second.log")
        self.addCleanup(second.kill)
        second.start()
        wait_until("the second leads", lambda: "core started" in second.tail())
        code, out, err = self.fleet.run("hold", "model/m", "--reason", "too late")
        self.assertNotEqual(0, code, out)
        self.assertIn("the store is at epoch", out + err)
        wait_until("the first one ended", lambda: not self.fleet.controller.is_alive())
        self.assertEqual(3, self.fleet.controller.popen.returncode)
        self.assertTrue(second.is_alive(), second.tail())

    def test_roll_on_etcd(self):
        fleet = self.fleet
        fleet.start()
        fleet.publish("v1")
        fleet.wait_serving(1)
        traffic = fleet.start_traffic()
        fleet.publish("v2")
        fleet.wait_serving(2)
        fleet.controller.kill()
        fleet.controller.start()
        fleet.wait_controller()
        self.assertEqual([1, 2], sorted(int(v["seq"]) for v in fleet.get("versions")))
        self.etcd.kill()
        code, out, err = fleet.run("hold", "model/m", "--reason", "etcd is gone")
        self.assertNotEqual(0, code, out)
        self.assertIn("etcd", out + err)
        self.etcd.start()
        wait_until("the controller has its store again", lambda: fleet.run("get", "models")[0] == 0)
        fleet.publish("v3")
        fleet.wait_serving(3)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1", 2: "v2", 3: "v3"})
        self.check_taken_over()
        self.assertEqual([], [p.name for p in fleet.dir.glob("*.log") if PASSWORD in p.read_text(errors="replace")])


if __name__ == "__main__":
    unittest.main()
