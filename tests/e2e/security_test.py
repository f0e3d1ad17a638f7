#!/usr/bin/env python3
"""Identities, roles and the audit from end to end, with certificates that `batonctl certs` made: who may, may, and who may not, is refused and on record."""

import json
import os
import pathlib
import shutil
import socket
import ssl
import stat
import subprocess
import tempfile
import unittest

from fleet import Fleet, Process, check_answers, free_ports, program, read_answers, wait_until

DOMAIN = "e2e.lab"
NO_HANDSHAKES = "with OpenSSL 3.2 and later refused handshakes are not on record: api/rpc/handshakes.h"


def batonctl(*words):
    """(exit code, stdout, stderr) of a command that needs no fleet."""
    done = subprocess.run([program("batonctl"), *map(str, words)], capture_output=True, text=True, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr


def make(*words):
    code, out, err = batonctl("certs", *words)
    assert code == 0, f"batonctl certs {words}: {code} {out}{err}"
    return out


def identity(role, name):
    return f"spiffe://{DOMAIN}/{role}/{name}"


class SecureFleet(Fleet):
    """A fleet where nobody is anything without a certificate, and each agent has its own."""

    PEOPLE = {"ada": "operator", "vic": "viewer", "val": "viewer", "tom": "trainer", "node-c": "agent"}
    SETTINGS = {}  # More of the controller's file.

    def controller_argv(self):
        self.pki = self.dir / "pki"
        make("init", self.pki, "--trust-domain", DOMAIN)
        make("issue", self.pki, "controller", "--role", "controller", "--dns", "localhost", "--ip", "127.0.0.1")
        for name, role in self.PEOPLE.items():
            make("issue", self.pki, name, "--role", role)
        for name in self.groups:
            make("issue", self.pki, name, "--role", "agent", "--ip", "127.0.0.1", "--days", "3" if name == "node-b" else "60")
        rows = [
            {"identity": identity("agent", "*"), "role": "agent", "agents": ["{1}"], "groups": ["{1}-*"]},
            {"identity": identity("agent", "node-a"), "role": "trainer", "models": ["m", "m-*"]},
            {"identity": identity("trainer", "*"), "role": "trainer", "models": ["m-of-{1}"]},
            {"identity": identity("operator", "*"), "role": "operator"},
            {"identity": identity("viewer", "*"), "role": "viewer"},
        ]
        config = {
            "listen": [self.server],
            "store": f"sqlite:{self.dir}/controller.db",
            "access": {"local": ["none"], "identities": rows},
            "tls": {"cert": str(self.pki / "controller.crt"), "key": str(self.pki / "controller.key"), "clientCa": str(self.pki / "ca.crt")},
        }
        (self.dir / "controller.yaml").write_text(json.dumps({**config, **self.SETTINGS}))
        return [program("baton-controller"), "--config", str(self.dir / "controller.yaml")]

    def pair(self, name, folder=None):
        folder = folder or self.pki
        return {"ca": str(self.pki / "ca.crt"), "cert": str(folder / f"{name}.crt"), "key": str(folder / f"{name}.key")}

    def agent_config(self, name):
        config = {**super().agent_config(name), "controllerTls": self.pair(name), "peerTls": self.pair(name)}
        if "listen" in config:
            pair = self.pair(name)
            config["listenTls"] = {"cert": pair["cert"], "key": pair["key"], "clientCa": pair["ca"]}
        return config

    def run(self, *words, who="ada", folder=None, **options):
        pair = self.pair(who, folder)
        return super().run(*words, "--ca", pair["ca"], "--cert", pair["cert"], "--key", pair["key"], **options)

    def audit(self, *words):
        return json.loads(self.ctl("audit", *words, "-o", "json")).get("entries", [])


def sees_handshakes():
    """As rpc_sees_handshakes() of api/rpc/rpc.h has it, of the same library."""
    return ssl.OPENSSL_VERSION_INFO < (3, 2)


class Security(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SecureFleet({"node-a": {"node-a-g0": [1], "node-a-g1": [1]}, "node-b": {"node-b-g0": [1], "node-a-g1": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()

    def assertRefused(self, result, *texts):
        code, _, err = result
        self.assertEqual(1, code, err)
        self.assertIn("PERMISSION_DENIED", err)
        self.assertIn("NOT_ALLOWED", err)
        for text in texts:
            self.assertIn(text, err)

    def find_audited(self, *words, **members):
        """Waits for an entry with these members."""

        def found():
            return next((e for e in self.fleet.audit(*words) if all(e.get(k) == v for k, v in members.items())), None)

        return wait_until(lambda: f"an entry with {members}: {self.fleet.audit(*words)}", found)

    # --- who may ---

    def test_a_roll_completes_and_is_on_record(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)
        self.fleet.publish("v2")
        self.fleet.wait_serving(2)
        self.fleet.ctl("suspend", "model/m", "--reason", "maintenance window")
        self.fleet.ctl("resume", "model/m")
        published = self.find_audited("model/m", method="baton.v1.Versions/Publish", outcome="OK")
        self.assertEqual(identity("agent", "node-a"), published["principal"])
        suspended = self.find_audited("model/m", method="baton.v1.Models/Suspend", outcome="OK")
        self.assertEqual((identity("operator", "ada"), "maintenance window"), (suspended["principal"], suspended["reason"]))
        self.assertGreater(int(suspended["revisionAfter"]), int(suspended["revisionBefore"]))
        self.assertIn("127.0.0.1", suspended["address"])
        wide = self.fleet.ctl("audit", "model/m", "--since", "1h", "-o", "wide")
        self.assertIn("maintenance window", wide)
        self.assertIn(f"revision {suspended['revisionBefore']} to {suspended['revisionAfter']}", wide)
        self.assertIn("method: baton.v1.Models/Suspend", self.fleet.ctl("audit", "model/m", "-o", "yaml"))
        self.assertEqual([], self.fleet.audit("model/nobody"))

    def test_a_viewer_reads(self):
        code, _, err = self.fleet.run("get", "groups", who="vic")
        self.assertEqual(0, code, err)

    # --- who may not ---

    def test_a_viewer_changes_nothing(self):
        result = self.fleet.run("cordon", "group/node-a-g0", "--reason", "curious", who="vic")
        self.assertRefused(result, identity("viewer", "vic"), "Fleet/Cordon", "needs the role operator", "access.identities")
        entry = self.find_audited("--refused", "--principal", "viewer/vic", method="baton.v1.Fleet/Cordon")
        self.assertEqual(("PERMISSION_DENIED", "group/node-a-g0", "curious"), (entry["outcome"], entry["object"], entry["reason"]))
        self.assertNotIn("cordoned", self.fleet.group_items()["node-a-g0"])

    def test_a_trainer_publishes_its_own_models_only(self):
        folder = self.fleet.dir / "models"
        folder.mkdir()
        (folder / "other.yaml").write_text(json.dumps({"kind": "Model", "metadata": {"name": "other"}}))
        self.fleet.ctl("apply", "-f", folder / "other.yaml")
        code, _, err = self.fleet.run("publish", pathlib.Path(__file__).parents[1] / "data/qwen3-tiny/v1", "--model", "other")
        self.assertNotEqual(0, code)
        self.assertIn("other", err)
        entry = self.find_audited("model/other", "--refused", method="baton.v1.Versions/Open")
        self.assertEqual(("PERMISSION_DENIED", identity("agent", "node-a")), (entry["outcome"], entry["principal"]))
        self.assertRefused(self.fleet.run("sleep", "model/m", who="tom"), "model 'm'")
        self.assertRefused(self.fleet.run("roll", "start", "m", who="tom"), "needs the role operator")

    def test_what_there_is_not_is_told_not_refused(self):
        code, _, err = self.fleet.run("sleep", "group/no-such", who="tom")
        self.assertEqual(1, code, err)
        self.assertIn("NOT_FOUND", err)
        self.assertNotIn("PERMISSION_DENIED", err)
        self.assertEqual({"NOT_FOUND"}, {e["outcome"] for e in self.fleet.audit("group/no-such", "--principal", "trainer/tom")})

    def start_thief(self, name, own_name, group):
        """An agent with the certificate of another than it says to be, or with a group of another."""
        engine = {"name": "e0", "kind": "vllm", "url": f"http://127.0.0.1:{free_ports(1)[0]}", "recreate": {"none": "nothing"}}
        config = {
            "name": own_name,
            "controller": self.fleet.server,
            "controllerTls": self.fleet.pair("node-c"),
            "stateDirectory": str(self.fleet.dir / name),
            "socket": f"unix:{self.fleet.dir}/{name}.sock",
            "landing": {"directory": str(self.fleet.shm / name), "budget": "1MiB"},
            "groups": [{"name": group, "model": "m", "engines": [engine]}],
        }
        path = self.fleet.dir / f"{name}.yaml"
        path.write_text(json.dumps(config))
        thief = Process(name, [program("baton-agent"), "--config", str(path)], self.fleet.dir / f"{name}.log")
        self.addCleanup(thief.kill)
        return thief.start()

    def test_an_agent_speaks_for_its_own_groups_only(self):
        thief = self.start_thief("thief-of-a-group", "node-c", "node-a-g0")
        entry = self.find_audited("group/node-a-g0", "--refused", method="baton.v1.AgentSession/Session")
        self.assertEqual(identity("agent", "node-c"), entry["principal"])
        wait_until(lambda: f"it is told\n{thief.tail()}", lambda: "may not speak as agent 'node-c' for group 'node-a-g0'" in thief.log.read_text())
        thief = self.start_thief("thief-of-a-name", "node-a", "node-c-g0")
        wait_until(lambda: f"it is told\n{thief.tail()}", lambda: "may not speak as agent 'node-a'" in thief.log.read_text())
        self.find_audited("agent/node-a", "--refused", method="baton.v1.AgentSession/Session", principal=identity("agent", "node-c"))
        self.assertEqual("node-a", self.fleet.group_items()["node-a-g0"]["agent"])

    @unittest.skipUnless(sees_handshakes(), NO_HANDSHAKES)
    def test_a_foreign_authority_is_not_believed(self):
        foreign = self.fleet.dir / "foreign"
        make("init", foreign, "--trust-domain", DOMAIN)
        make("issue", foreign, "ada", "--role", "operator")
        code, _, err = self.fleet.run("get", "models", "--timeout", "5s", folder=foreign)
        self.assertIn(code, (3, 4), err)
        self.assertEqual(0, self.fleet.run("get", "models")[0], "the controller answers nobody")
        # batonctl ends first: it does not believe our authority. Somebody who does not care goes on.
        self.shake_hands(foreign / "ada")
        entry = self.find_audited("address/127.0.0.1", "--refused", "--principal", identity("operator", "ada"), method="handshake")
        self.assertEqual(("anonymous", "UNAUTHENTICATED"), (entry["principal"], entry["outcome"]))
        self.assertIn("its certificate is refused", entry["message"])
        self.assertRegex(entry["address"], r"^ipv4:127\.0\.0\.1:\d+$")
        self.assertIn("a connection was refused", self.fleet.controller.log.read_text())

    def shake_hands(self, pair=None):
        """One handshake with any certificate, or none, by somebody who believes everything."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        context.set_alpn_protocols(["h2"])
        if pair is not None:
            context.load_cert_chain(f"{pair}.crt", f"{pair}.key")
        try:
            with socket.create_connection(("127.0.0.1", self.fleet.port), timeout=30) as plain, context.wrap_socket(plain) as tls:
                tls.recv(1)
        except OSError:
            pass  # As it should be.

    @unittest.skipUnless(sees_handshakes(), NO_HANDSHAKES)
    def test_who_does_not_believe_the_controller_is_on_record(self):
        context = ssl.create_default_context()  # Without our authority.
        with self.assertRaises(ssl.SSLError), socket.create_connection(("127.0.0.1", self.fleet.port), timeout=30) as plain:
            context.wrap_socket(plain, server_hostname="localhost")

        def found():
            entries = self.fleet.audit("address/127.0.0.1", "--refused")
            return any("it does not accept our certificate" in e["message"] for e in entries)

        wait_until(lambda: f"it is on record: {self.fleet.audit('--refused')}", found)

    def test_a_replayed_command_is_refused(self):
        self.fleet.ctl("hold", "model/m", "--request-id", "captured", "--reason", "once")
        self.fleet.ctl("resume", "model/m")
        self.fleet.ctl("hold", "model/m", "--request-id", "captured", "--reason", "once")
        self.assertFalse(self.fleet.get("models")[0]["status"].get("held"), "the same call again changes nothing")
        code, _, err = self.fleet.run("suspend", "model/m", "--request-id", "captured", "--reason", "another")
        self.assertEqual(1, code, err)
        self.assertIn("was used for another call", err)
        entry = self.find_audited("model/m", "--refused", method="baton.v1.Models/Suspend", requestId="captured")
        self.assertEqual(("INVALID_ARGUMENT", identity("operator", "ada")), (entry["outcome"], entry["principal"]))

    @unittest.skipUnless(sees_handshakes(), NO_HANDSHAKES)
    def test_an_expired_certificate_is_refused(self):
        make("issue", self.fleet.pki, "eve", "--role", "operator", "--valid", "1s")
        wait_until("it has expired", lambda: self.fleet.run("get", "models", "--timeout", "5s", who="eve")[0] in (3, 4))
        entry = self.find_audited("--refused", "--principal", "operator/eve", method="handshake")
        self.assertIn("certificate has expired", entry["message"])
        make("issue", self.fleet.pki, "eve", "--role", "operator", "--renew")
        self.assertEqual(0, self.fleet.run("get", "models", who="eve")[0])

    @unittest.skipUnless(sees_handshakes(), NO_HANDSHAKES)
    def test_without_a_certificate_nobody_is_served(self):
        code, _, err = Fleet.run(self.fleet, "get", "models", "--ca", self.fleet.pki / "ca.crt", "--timeout", "5s")
        self.assertIn(code, (3, 4), err)
        self.assertEqual(0, self.fleet.run("get", "models")[0], "the controller answers nobody")
        wait_until(lambda: f"it is on record: {self.fleet.audit('--refused')}", lambda: any("it shows no certificate" in e["message"] for e in self.fleet.audit("address/127.0.0.1", "--refused")))

    # --- renewal ---

    def served_serial(self):
        context = ssl.create_default_context(cafile=self.fleet.pki / "ca.crt")
        context.load_cert_chain(self.fleet.pki / "ada.crt", self.fleet.pki / "ada.key")
        context.set_alpn_protocols(["h2"])
        with socket.create_connection(("127.0.0.1", self.fleet.port), timeout=30) as plain, context.wrap_socket(plain, server_hostname="localhost") as tls:
            return tls.getpeercert()["serialNumber"]

    def test_a_renewed_certificate_is_taken_up_and_no_stream_is_dropped(self):
        count = lambda: self.fleet.agents["node-a"].log.read_text().count("session: connected")
        before, sessions = self.served_serial(), count()
        make("issue", self.fleet.pki, "controller", "--role", "controller", "--dns", "localhost", "--ip", "127.0.0.1", "--renew")
        wait_until("the new one is shown", lambda: self.served_serial() != before)
        self.fleet.ctl("get", "groups")
        self.assertEqual(sessions, count())

    def test_a_certificate_that_ends_soon_is_warned_of(self):
        texts = lambda name: [line for line in self.fleet.agents[name].log.read_text().splitlines() if "a certificate expires soon" in line]
        wait_until("a warning", lambda: any("node-b.crt" in line for line in texts("node-b")))
        self.assertEqual([], texts("node-a"))

    # --- what is in no log ---

    def test_a_secret_in_a_log_is_found(self):
        planted = self.fleet.dir / "planted.log"
        self.addCleanup(planted.unlink)
        planted.write_text("2026-01-01 nothing yet\n")
        self.fleet.check_logs()
        for secret in self.fleet.secrets():
            planted.write_text(f"2026-01-01 info: said {secret}\n")
            with self.assertRaisesRegex(AssertionError, "planted.log holds a secret"):
                self.fleet.check_logs()

    def test_no_log_and_no_audit_holds_a_secret(self):
        self.fleet.ctl("events")
        secrets = {p: p.read_text().strip() for p in self.fleet.dir.rglob("*.token")}
        self.assertTrue(secrets)
        for key in self.fleet.pki.glob("*.key"):
            secrets[key] = key.read_text().splitlines()[1]
        audits = [*self.fleet.dir.glob("*.audit.jsonl*")]
        texts = [*self.fleet.dir.glob("*.log"), *audits]
        self.assertTrue(audits)
        self.assertGreater(len(texts), len(audits))
        for text in texts:
            for where, secret in secrets.items():
                self.assertNotIn(secret, text.read_text(errors="replace"), f"{where} in {text}")


class Authority(unittest.TestCase):
    """The authority is replaced while everything runs: both are trusted, then new certificates, then the new one alone."""

    def setUp(self):
        self.fleet = SecureFleet({"node-a": {"node-a-g0": [1], "node-a-g1": [1]}, "node-b": {"node-b-g0": [1], "node-a-g1": [1]}})
        self.addCleanup(self.fleet.close)
        self.fleet.start()
        self.fleet.wait_connected()
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)

    def streams(self):
        """How often each agent connected to the controller, and the leader to its member."""
        logs = {name: agent.log.read_text() for name, agent in self.fleet.agents.items()}
        return [(name, log.count("session: connected"), log.count("leader node-a: connected")) for name, log in logs.items()]

    def trust(self, *authorities):
        pki = self.fleet.pki
        (pki / "next").write_text("".join((folder / "ca.crt").read_text() for folder in authorities))
        os.replace(pki / "next", pki / "ca.crt")

    def test_replaced_under_load(self):
        fleet, pki = self.fleet, self.fleet.pki
        old, new = fleet.dir / "pki-old", fleet.dir / "pki-new"
        shutil.copytree(pki, old)
        make("init", new, "--trust-domain", DOMAIN)
        traffic, before = fleet.start_traffic(), self.streams()
        self.trust(old, new)
        for name, role in {"controller": "controller", "node-a": "agent", "node-b": "agent", "ada": "operator"}.items():
            shutil.copy(pki / f"{name}.key", new)
            make("issue", new, name, "--role", role, "--dns", "localhost", "--ip", "127.0.0.1", "--renew")
            os.replace(new / f"{name}.crt", pki / f"{name}.crt")
        self.assertEqual(2, fleet.publish("v2")["seq"])
        fleet.wait_serving(2)
        self.trust(new)
        self.assertEqual(0, fleet.run("get", "models")[0])
        self.assertIn(fleet.run("get", "models", "--timeout", "5s", folder=old)[0], (3, 4), "the old authority's operator is served")
        self.assertEqual(before, self.streams(), "a stream was dropped")
        for process in (fleet.controller, *fleet.agents.values()):  # Now each stream is opened anew.
            self.assertEqual(0, process.stop(60), process.tail())
            process.start()
        fleet.wait_controller()
        fleet.wait_connected()
        self.assertEqual(3, fleet.publish("v1")["seq"])
        fleet.wait_serving(3)
        traffic.stop(70)
        answers = read_answers(traffic)
        self.assertEqual([], [a for a in answers if a["status"] != 200])
        check_answers(answers, {1: "v1", 2: "v2", 3: "v1"})


class Refusals(unittest.TestCase):
    """Daemons that do not start, and an authority that does not overwrite."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="baton-e2e.")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def ends(self, *argv):
        done = subprocess.run([program(argv[0]), *map(str, argv[1:])], capture_output=True, text=True, timeout=60, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_a_controller_for_other_machines_needs_certificates(self):
        code, text = self.ends("baton-controller", "--listen", f"0.0.0.0:{free_ports(1)[0]}", "--store", "memory:")
        self.assertEqual(1, code, text)
        for word in ("0.0.0.0", "tls.clientCa", "--insecure"):
            self.assertIn(word, text)

    def test_an_agent_with_a_controller_elsewhere_needs_certificates(self):
        config = {"name": "a", "controller": "192.0.2.1:7070", "stateDirectory": str(self.dir), "landing": {"directory": str(self.dir), "budget": "1MiB"},
                  "versions": {"directory": str(self.dir)}}
        (self.dir / "a.yaml").write_text(json.dumps(config))
        code, text = self.ends("baton-agent", "--config", self.dir / "a.yaml", "--check")
        self.assertEqual(1, code, text)
        self.assertIn("controllerTls", text)
        code, text = self.ends("baton-agent", "--config", self.dir / "a.yaml", "--check", "--insecure")
        self.assertEqual(0, code, text)

    def test_a_wrong_role_is_named_with_its_line(self):
        (self.dir / "c.yaml").write_text("store: 'memory:'\naccess:\n  identities:\n  - identity: x.lab\n    role: king\n")
        code, text = self.ends("baton-controller", "--config", self.dir / "c.yaml")
        self.assertEqual(1, code, text)
        self.assertIn("c.yaml:5: access.identities[0].role: 'king' is no role", text)

    def test_the_authority_keeps_keys_to_itself_and_overwrites_none(self):
        pki = self.dir / "pki"
        make("init", pki)
        out = make("issue", pki, "node-1", "--role", "agent", "--ip", "::1", "--dns", "node-1.lab")
        self.assertIn("identity: spiffe://baton.lab/agent/node-1", out)
        for key in ("ca.key", "node-1.key"):
            self.assertEqual(0o600, stat.S_IMODE(os.stat(pki / key).st_mode), key)
        before = (pki / "node-1.key").read_bytes(), (pki / "ca.key").read_bytes()
        self.assertEqual(1, batonctl("certs", "issue", pki, "node-1", "--role", "agent")[0])
        self.assertEqual(1, batonctl("certs", "init", pki)[0])
        make("issue", pki, "node-1", "--role", "agent", "--renew")
        self.assertEqual(before, ((pki / "node-1.key").read_bytes(), (pki / "ca.key").read_bytes()))
        for words in (["ca", "--role", "agent"], ["../x", "--role", "agent"], ["x", "--role", "king"], ["x", "--role", "agent", "--ip", "1.2"],
                      ["x", "--role", "agent", "--dns", "a,URI:spiffe://baton.lab/operator/x"], ["x", "--role", "agent", "--valid", "0s"]):
            code, _, err = batonctl("certs", "issue", pki, *words)
            self.assertEqual(1, code, f"{words}: {err}")
            self.assertFalse((pki / "x.key").exists())


if __name__ == "__main__":
    unittest.main()
