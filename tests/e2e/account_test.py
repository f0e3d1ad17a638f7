#!/usr/bin/env python3
"""Tokens of Kubernetes service accounts: signed as an API server signs them, verified by its keys from a file, with roles by the access table."""

import base64
import json
import os
import subprocess
import time
import unittest

from fleet import Fleet, wait_until
from security_test import SecureFleet

try:
    import grpc
except ImportError:
    grpc = None

ISSUER = "https://kubernetes.default.svc.cluster.local"
TRAINER, VIEWER = "system:serviceaccount:rl:ppo", "system:serviceaccount:observers:grafana"


def url64(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def openssl(*words, given=None):
    return subprocess.run(["openssl", *map(str, words)], input=given, capture_output=True, timeout=60, check=True).stdout


class Issuer:
    """An API server's key, named 'name', and the tokens that it makes."""

    def __init__(self, folder, name):
        self.name, self.key = name, folder / f"{name}.key"
        openssl("genpkey", "-algorithm", "RSA", "-pkeyopt", "rsa_keygen_bits:2048", "-out", self.key)

    def public(self):
        modulus = openssl("rsa", "-in", self.key, "-noout", "-modulus").decode().strip().partition("=")[2]
        return {"use": "sig", "kty": "RSA", "kid": self.name, "alg": "RS256", "n": url64(bytes.fromhex(modulus)), "e": "AQAB"}

    def token(self, subject, **claims):
        now = int(time.time())
        claims = {"iss": ISSUER, "aud": ["baton"], "sub": subject, "iat": now, "nbf": now, "exp": now + 3600, **claims}
        parts = [{"alg": "RS256", "kid": self.name}, claims]
        text = ".".join(url64(json.dumps(part).encode()) for part in parts)
        return f"{text}.{url64(openssl('dgst', '-sha256', '-sign', self.key, given=text.encode()))}"


class AccountFleet(SecureFleet):
    PEOPLE = {"ada": "operator"}

    def controller_argv(self):
        self.issuer, self.later = Issuer(self.dir, "first"), Issuer(self.dir, "later")
        self.keys = self.dir / "jwks.json"
        self.put_keys(self.issuer)
        argv = super().controller_argv()
        path = self.dir / "controller.yaml"
        config = json.loads(path.read_text())
        config["access"]["serviceAccounts"] = {"keys": str(self.keys), "issuer": ISSUER, "audience": "baton"}
        config["access"]["identities"] += [
            {"identity": "system:serviceaccount:rl:*", "role": "trainer", "models": ["m-of-{1}"]},
            {"identity": VIEWER, "role": "viewer"},
        ]
        path.write_text(json.dumps(config))
        return argv

    def put_keys(self, *issuers):
        (self.dir / "next.json").write_text(json.dumps({"keys": [issuer.public() for issuer in issuers]}))
        os.replace(self.dir / "next.json", self.keys)

    def keep(self, token):
        """The token; where secrets of tests are, so that logs are searched for it."""
        with open(self.dir / "accounts.tokens", "a", encoding="ascii") as file:
            file.write(token + "\n")
        return token

    def ask(self, token, method="baton.v1.Models/List"):
        """A call's status code and details, by python3-grpcio and without a certificate."""
        credentials = grpc.ssl_channel_credentials((self.pki / "ca.crt").read_bytes())
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", "localhost")]
        with grpc.secure_channel(self.server, credentials, options) as channel:
            call = channel.unary_unary(f"/{method}", request_serializer=bytes, response_deserializer=bytes)
            try:
                call(b"", timeout=60, metadata=[("authorization", f"Bearer {token}")])
                return "OK", ""
            except grpc.RpcError as error:
                return error.code().name, error.details()


@unittest.skipIf(grpc is None, "python3-grpcio is not installed")
class Accounts(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = AccountFleet({"node-a": {"node-a-g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()

    def assertRefused(self, token, why):
        code, text = self.fleet.ask(token)
        self.assertEqual("UNAUTHENTICATED", code, text)
        self.assertIn(why, text)
        self.assertNotIn(token.split(".")[1], text)

    def test_an_account_has_the_roles_of_its_rows_and_is_on_record(self):
        viewer = self.fleet.keep(self.fleet.issuer.token(VIEWER))
        self.assertEqual(("OK", ""), self.fleet.ask(viewer))
        code, text = self.fleet.ask(viewer, "baton.v1.Models/Suspend")
        self.assertEqual("PERMISSION_DENIED", code, text)
        self.assertIn(f"{VIEWER} may not call", text)
        entry = next(e for e in self.fleet.audit("--refused", "--principal", VIEWER) if e["method"] == "baton.v1.Models/Suspend")
        self.assertEqual("PERMISSION_DENIED", entry["outcome"])
        code, text = self.fleet.ask(self.fleet.keep(self.fleet.issuer.token("system:serviceaccount:strangers:x")))
        self.assertEqual("PERMISSION_DENIED", code, text)

    def test_batonctl_shows_one_and_a_trainer_has_its_own_models(self):
        file = self.fleet.dir / "ppo.tokens"
        file.write_text(self.fleet.issuer.token(TRAINER) + "\n")
        words = ("--ca", self.fleet.pki / "ca.crt", "--token-file", file)
        code, _, err = Fleet.run(self.fleet, "get", "models", *words)
        self.assertEqual(0, code, err)
        code, _, err = Fleet.run(self.fleet, "sleep", "model/m", *words)
        self.assertEqual(1, code, err)
        self.assertIn(f"{TRAINER} may not call", err)
        self.assertIn("model 'm'", err)

    def test_what_does_not_hold_is_refused_and_on_record(self):
        issuer, now = self.fleet.issuer, int(time.time())
        rows = {
            "has expired": issuer.token(VIEWER, exp=now - 60),
            "does not hold yet": issuer.token(VIEWER, nbf=now + 3600),
            "another audience": issuer.token(VIEWER, aud=["https://kubernetes.default.svc"]),
            "another issuer": issuer.token(VIEWER, iss="https://elsewhere"),
            "no service account": issuer.token("system:node:n1"),
            "has signed it": self.fleet.later.token(VIEWER),
        }
        for why, token in rows.items():
            self.assertRefused(self.fleet.keep(token), why)
        entries = self.fleet.audit("--refused")
        for why in rows:
            self.assertTrue(any(e["outcome"] == "UNAUTHENTICATED" and why in e["message"] for e in entries), why)

    def test_keys_change_without_a_restart(self):
        old, new = self.fleet.keep(self.fleet.issuer.token(VIEWER)), self.fleet.keep(self.fleet.later.token(VIEWER))
        self.addCleanup(self.fleet.put_keys, self.fleet.issuer)
        self.fleet.put_keys(self.fleet.issuer, self.fleet.later)
        wait_until("the new key counts", lambda: self.fleet.ask(new)[0] == "OK")
        self.assertEqual("OK", self.fleet.ask(old)[0])
        self.fleet.put_keys(self.fleet.later)
        wait_until("the old key is gone", lambda: self.fleet.ask(old)[0] == "UNAUTHENTICATED")
        self.fleet.keys.write_text("none\n")
        wait_until("the last good ones stay", lambda: self.fleet.ask(new)[0] == "OK" and "not reloaded" in self.fleet.controller.log.read_text())

    def test_no_log_holds_a_token(self):
        token = self.fleet.keep(self.fleet.issuer.token(VIEWER))
        self.fleet.ask(token)
        self.fleet.ask(token + "x")
        self.assertIn(token, self.fleet.secrets())
        self.fleet.check_logs()


if __name__ == "__main__":
    unittest.main()
