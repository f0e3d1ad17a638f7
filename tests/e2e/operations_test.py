#!/usr/bin/env python3
"""deploy/docs/operations.md, step by step: its files, its commands, on real daemons and a real etcd; requests run all the while and none may fail."""

import json
import os
import re
import shutil
import signal
import socket
import ssl
import unittest

from fleet import check_answers, read_answers, wait_until
from pages import Page, read_page

FOLDERS = ("/etc/baton", "/var/lib/baton", "/var/log/baton", "/run/baton", "/backup")
ENGINES = {"node-1-g0.e0": 8001, "node-2-g0.e0": 8002}
ONE = ("One machine", "Back up a file", "Restore a file", "Upgrade one controller", "The store is lost, without a backup")
CERTIFICATES = ("Renew", "Replace the authority", "Replace the authority of etcd", "A node is replaced", "A node goes for good")
DISASTERS = ("Back up etcd", "Upgrade three controllers", "All controllers are lost", "etcd's majority is lost for good", "Restore into etcd")


class Operating(unittest.TestCase):
    def begin(self, ctl, engines):
        self.page, self.ctl = Page("operations.md", FOLDERS, engines), ctl
        self.addCleanup(self.page.close)
        self.names = {1: "v1"}

    def items(self, kind):
        return json.loads(self.page.sh(f"{self.ctl} get {kind} -o json 2>/dev/null\n"))["items"]

    def publish(self, version):
        """A roll, which every group follows."""
        said = self.page.sh(f"{self.ctl} publish /models/step-{version[1:]} --model m\n{self.ctl} wait m --for=converged --timeout 2m\n")
        self.names[int(re.search(r"version/m@(\d+)", said)[1])] = version

    def check_serving(self, groups, versions=None):
        """All groups serve the newest version, and the store has these ones, or every one that was published."""
        newest = max(self.names)
        stands = lambda: {g["meta"]["name"]: (int(g.get("committedSeq", 0)), g.get("gateOpen")) for g in self.items("groups")}
        wait_until(lambda: f"{groups} serve {newest}: {stands()}\n{self.page.tails()}", lambda: stands() == dict.fromkeys(groups, (newest, True)))
        self.assertEqual(versions or sorted(self.names), sorted(int(v["seq"]) for v in self.items("versions")))

    def check_traffic(self, traffic):
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, self.names)


class OneController(Operating):
    def test_every_section_is_tried(self):
        sections = {heading for heading, blocks in read_page("operations.md").items() if any(language == "sh" for language, _, _ in blocks)}
        self.assertEqual(sections, {"", "Three controllers", *ONE, *CERTIFICATES, *DISASTERS})

    def test_one_machine(self):
        self.begin("batonctl", {"node-1-g0.e0": 8001})
        page = self.page
        page.run("One machine")
        traffic = page.start_traffic()
        page.run("Back up a file")
        self.publish("v2")
        page.run("Restore a file")  # The second version came after the backup: the agent knew it.
        self.check_serving(["node-1-g0"])
        page.run("Upgrade one controller")
        self.publish("v3")
        page.run("The store is lost, without a backup")
        self.check_serving(["node-1-g0"], [3])
        self.publish("v1")
        self.check_traffic(traffic)
        self.assertEqual(sorted(ONE), sorted(page.ran[1:]))


@unittest.skipUnless(shutil.which("etcd"), "etcd is not installed (deploy/install.sh test)")
class ThreeControllers(Operating):
    GROUPS = ["node-1-g0", "node-2-g0"]

    def bootstrap(self):
        self.begin("ctl", ENGINES)
        model = next(text for _, path, text in self.page.sections["One machine"] if path == "/etc/baton/model.yaml")
        self.page.path("/etc/baton/model.yaml").write_text(model)
        self.page.run("Three controllers")
        self.check_serving(self.GROUPS)

    def sessions(self):
        """How often each agent connected."""
        return [self.page.daemon_log(node).count("session: connected") for node in ("node-1", "node-2")]

    def served_serial(self, port, pki, authority):
        """Number of the certificate that the first machine shows at a port to one who trusts this authority."""
        context = ssl.create_default_context(cafile=self.page.path(authority))
        name = {"/etc/baton/pki": "ada", "/etc/baton/etcd-pki": "store"}[pki]
        context.load_cert_chain(self.page.path(f"{pki}/{name}.crt"), self.page.path(f"{pki}/{name}.key"))
        context.set_alpn_protocols(["h2"])
        address = f"{self.page.network}1"
        with socket.create_connection((address, port), timeout=30) as plain, context.wrap_socket(plain, server_hostname=address) as tls:
            return tls.getpeercert()["serialNumber"]

    def shown(self):
        return self.served_serial(7070, "/etc/baton/pki", "/etc/baton/ca.crt"), self.served_serial(2379, "/etc/baton/etcd-pki", "/etc/baton/etcd-ca.crt")

    def is_refused(self, pki):
        """Of an operator whose certificate is of an authority that nobody trusts any more."""
        code = self.page.sh(f"batonctl --ca /etc/baton/ca.crt --cert {pki}/ada.crt --key {pki}/ada.key --timeout 5s get models && echo code 0 || echo code $?\n")
        return "code 0" not in code

    def keep_aside(self):
        """What the old authority signed, as a thief has it."""
        self.page.sh("cp -r /etc/baton/pki /etc/baton/stolen\n")

    def test_certificates_and_nodes(self):
        self.bootstrap()
        page, traffic = self.page, self.page.start_traffic(engines=["node-1-g0.e0"])
        sessions, before = self.sessions(), self.shown()
        page.run("Renew")
        wait_until("the renewed ones are shown", lambda: not set(before) & set(self.shown()))
        self.keep_aside()
        self.assertFalse(self.is_refused("/etc/baton/stolen"))
        page.run("Replace the authority")
        self.assertTrue(self.is_refused("/etc/baton/stolen"))
        self.assertEqual(sessions, self.sessions(), page.tails())
        self.publish("v2")
        page.run("Replace the authority of etcd")
        page.sh("until ctl get models; do sleep 1; done\n")
        page.sh("for i in 1 2 3; do stop c$i; start c$i baton-controller --config /etc/baton/c$i.yaml; until ctl get models; do sleep 1; done; done\n")
        self.publish("v3")  # Everybody connected anew, with what the new authorities signed.
        self.check_serving(self.GROUPS)
        self.lose_node()
        page.run("A node is replaced")
        self.check_serving(self.GROUPS)
        self.publish("v1")
        self.lose_node()
        page.run("A node goes for good")
        self.assertEqual(["node-1-g0"], [g["meta"]["name"] for g in self.items("groups") if not g.get("retired")])
        self.publish("v2")
        self.check_traffic(traffic)
        self.assertEqual(sorted(CERTIFICATES), sorted(page.ran[2:]))

    def lose_node(self):
        """Its machine burnt down: agent, engine, disk, memory."""
        state, landing = self.page.path("/var/lib/baton/node-2"), self.page.path("/dev/shm/baton/node-2")
        engine = next((state / "engines").glob("*.pid")).read_text().split()[0]
        self.page.kill("node-2")
        os.kill(int(engine), signal.SIGKILL)
        shutil.rmtree(state)
        shutil.rmtree(landing)

    def test_disasters(self):
        self.bootstrap()
        page, traffic = self.page, self.page.start_traffic()
        page.run("Back up etcd")
        page.run("Upgrade three controllers")
        self.publish("v2")
        page.kill("c1", "c2", "c3")
        page.run("All controllers are lost")
        self.check_serving(self.GROUPS)
        self.publish("v3")
        page.kill("etcd-2", "etcd-3")
        for member in (2, 3):
            shutil.rmtree(page.path(f"/var/lib/baton/etcd-{member}"))
        page.run("etcd's majority is lost for good")
        self.check_serving(self.GROUPS)
        self.publish("v1")
        page.run("Restore into etcd")  # From the backup of the beginning; agents know what they serve.
        self.check_serving(self.GROUPS, [1, 4])
        self.publish("v2")
        self.check_serving(self.GROUPS, [1, 4, 5])
        self.check_traffic(traffic)
        self.assertEqual(sorted(DISASTERS), sorted(page.ran[2:]))


if __name__ == "__main__":
    unittest.main()
