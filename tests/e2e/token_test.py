#!/usr/bin/env python3
"""Bearer tokens instead of certificates: whose they are, where they count, that they change with their file, and that nothing writes them down."""

import hashlib
import json
import secrets
import unittest

from fleet import Fleet, wait_until
from security_test import SecureFleet, identity


def row_of(token, name):
    return f"sha256:{hashlib.sha256(token.encode()).hexdigest()} {name}\n"


class TokenFleet(SecureFleet):
    PEOPLE = {"ada": "operator"}

    def controller_argv(self):
        self.tokens = {name: secrets.token_hex(32) for name in ("olga", "vera", "later")}
        self.rows = row_of(self.tokens["olga"], identity("operator", "olga")) + "# people\n\n" + row_of(self.tokens["vera"], identity("viewer", "vera"))
        self.file = self.dir / "digests"
        self.file.write_text(self.rows)
        for name, token in self.tokens.items():
            (self.dir / f"{name}.tokens").write_text(token + "\n")
        argv = super().controller_argv()
        config = json.loads((self.dir / "controller.yaml").read_text())
        config["access"]["tokens"] = str(self.file)
        (self.dir / "controller.yaml").write_text(json.dumps(config))
        return argv

    def with_token(self, who, *words):
        return Fleet.run(self, *words, "--ca", self.pki / "ca.crt", *(["--token-file", self.dir / f"{who}.tokens"] if who else []))


class Tokens(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.fleet = TokenFleet({"node-a": {"node-a-g0": [1]}})
        cls.addClassCleanup(cls.fleet.close)
        cls.fleet.start()
        cls.fleet.wait_connected()

    def test_a_token_has_the_roles_of_its_row_and_is_on_record(self):
        code, _, err = self.fleet.with_token("olga", "suspend", "model/m", "--reason", "by token")
        self.assertEqual(0, code, err)
        self.fleet.ctl("resume", "model/m")
        entry = next(e for e in self.fleet.audit("model/m") if e.get("reason") == "by token")
        self.assertEqual(identity("operator", "olga"), entry["principal"])
        self.assertEqual(0, self.fleet.with_token("vera", "get", "models")[0])
        code, _, err = self.fleet.with_token("vera", "suspend", "model/m")
        self.assertEqual(1, code)
        self.assertIn(f"{identity('viewer', 'vera')} may not call", err)

    def test_an_unknown_token_and_none_are_refused(self):
        code, _, err = self.fleet.with_token("later", "get", "models")
        self.assertEqual(1, code, err)
        self.assertIn("UNAUTHENTICATED", err)
        entries = self.fleet.audit("--refused")
        self.assertIn(("UNAUTHENTICATED", "nobody has this token"), {(e["outcome"], e["message"]) for e in entries})
        code, _, err = self.fleet.with_token(None, "get", "models")
        self.assertEqual(1, code, err)
        self.assertIn("PERMISSION_DENIED", err)

    def test_the_file_is_read_again_and_a_bad_one_leaves_the_last_good_rows(self):
        self.fleet.file.write_text(self.fleet.rows + row_of(self.fleet.tokens["later"], identity("viewer", "later")))
        wait_until("the new row counts", lambda: self.fleet.with_token("later", "get", "models")[0] == 0)
        self.fleet.file.write_text("nonsense\n")
        self.assertEqual(0, self.fleet.with_token("later", "get", "models")[0])
        wait_until("it is said", lambda: "tokens not reloaded" in self.fleet.controller.log.read_text())
        self.fleet.file.write_text(self.fleet.rows)
        wait_until("the row is gone", lambda: self.fleet.with_token("later", "get", "models")[0] == 1)

    def test_a_token_is_not_sent_in_the_clear(self):
        code, _, err = Fleet.run(self.fleet, "--server", "192.0.2.1:7070", "get", "models", "--token-file", self.fleet.dir / "vera.tokens")
        self.assertEqual(1, code, err)
        self.assertIn("not sent in the clear", err)

    def test_agents_show_when_their_certificates_end(self):
        wide = self.fleet.ctl("get", "agents", "-o", "wide")
        self.assertIn("CERTIFICATE-ENDS", wide)
        self.assertRegex(wide, r"in (59|60)d")

    def test_no_log_holds_a_token(self):
        self.fleet.with_token("olga", "get", "models")
        self.assertTrue(set(self.fleet.tokens.values()) <= set(self.fleet.secrets()))
        self.fleet.check_logs()


if __name__ == "__main__":
    unittest.main()
