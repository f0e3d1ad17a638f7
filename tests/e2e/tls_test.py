#!/usr/bin/env python3
"""Mutual TLS from end to end: controller, agent and batonctl with certificates; without one nobody is served."""

import json
import subprocess
import unittest

from fleet import Fleet, Process, program, wait_until


def openssl(*words):
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


def make_authority(folder):
    openssl("req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", 2, "-subj", "/CN=baton test authority",
            "-keyout", folder / "ca.key", "-out", folder / "ca.crt")


def make_certificate(folder, name):
    openssl("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", f"/CN={name}",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.csr")
    (folder / "san.cnf").write_text(f"subjectAltName=DNS:{name},DNS:localhost,IP:127.0.0.1\nextendedKeyUsage=serverAuth,clientAuth\n")
    openssl("x509", "-req", "-in", folder / f"{name}.csr", "-CA", folder / "ca.crt", "-CAkey", folder / "ca.key", "-CAcreateserial",
            "-days", 2, "-extfile", folder / "san.cnf", "-out", folder / f"{name}.crt")


def certify(folder):
    """What an etcd with certificates, and its clients, need (several.py)."""
    make_authority(folder)
    for name in ("member", "client"):
        make_certificate(folder, name)


class SecureFleet(Fleet):
    """A fleet whose controller asks everybody for a certificate."""

    def controller_argv(self):
        make_authority(self.dir)
        for name in ("controller", "operator", *self.groups):
            make_certificate(self.dir, name)
        config = {
            "listen": [self.server],
            "store": f"sqlite:{self.dir}/controller.db",
            "access": {"identities": [
                {"identity": "operator", "role": "operator"},
                *({"identity": name, "role": "agent", "agents": [name], "groups": list(self.groups[name])} for name in self.groups),
                *({"identity": name, "role": "trainer", "models": ["*"]} for name in self.groups),
            ]},
            "tls": {"cert": str(self.dir / "controller.crt"), "key": str(self.dir / "controller.key"), "clientCa": str(self.dir / "ca.crt")},
        }
        (self.dir / "controller.yaml").write_text(json.dumps(config))
        return [program("baton-controller"), "--config", str(self.dir / "controller.yaml")]

    def agent_config(self, name):
        paths = {"ca": "ca.crt", "cert": f"{name}.crt", "key": f"{name}.key"}
        return {**super().agent_config(name), "controllerTls": {k: str(self.dir / v) for k, v in paths.items()}}

    def run(self, *words, **options):
        files = ("--ca", self.dir / "ca.crt", "--cert", self.dir / "operator.crt", "--key", self.dir / "operator.key")
        return super().run(*words, *files, **options)


class Tls(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = SecureFleet({"node-a": {"g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()

    def test_a_version_is_published_and_served_over_mutual_tls(self):
        self.fleet.publish("v1")
        self.fleet.wait_serving(1)

    def test_who_shows_no_certificate_is_not_served(self):
        code, _, err = Fleet.run(self.fleet, "get", "models", "--ca", self.fleet.dir / "ca.crt", "--timeout", "5s")
        self.assertIn(code, (3, 4), err)

    def test_plain_text_is_not_served(self):
        code, _, err = Fleet.run(self.fleet, "get", "models", "--timeout", "5s")
        self.assertIn(code, (3, 4), err)

    def test_another_authority_is_not_believed(self):
        other = self.fleet.dir / "other"
        other.mkdir(exist_ok=True)
        make_authority(other)
        code, _, err = Fleet.run(self.fleet, "get", "models", "--ca", other / "ca.crt", "--timeout", "5s")
        self.assertIn(code, (3, 4), err)

    def test_the_audit_names_the_certificate(self):
        self.fleet.ctl("suspend", "model/m")
        events = self.fleet.ctl("events", "model/m")
        self.fleet.ctl("resume", "model/m")
        self.assertIn("operator", events.splitlines()[-1])

    def test_a_missing_key_is_a_one_line_error(self):
        bad = Process("bad", [program("baton-controller"), "--config", str(self.fleet.dir / "bad.yaml")], self.fleet.dir / "bad.log")
        config = json.loads((self.fleet.dir / "controller.yaml").read_text())
        config["tls"]["key"] = str(self.fleet.dir / "no.key")
        config["listen"] = ["127.0.0.1:0"]
        config["store"] = "memory:"
        (self.fleet.dir / "bad.yaml").write_text(json.dumps(config))
        bad.start()
        wait_until("it ends", lambda: not bad.is_alive())
        self.assertEqual(1, bad.popen.returncode)
        self.assertIn("no.key", bad.log.read_text().splitlines()[0])


if __name__ == "__main__":
    unittest.main()
