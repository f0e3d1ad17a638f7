"""Other versions of vLLM with the same package, guard and agent's adapter: a run that the rotation chooses has one
of versions.txt; --full has all.

A version passes where `batonctl engine check` finds nothing, where the server keeps the engine contract
(engine_conformance: swaps, refusals, fences, a rank's report), and where it answers after all that to the bit
what it did when it was fresh."""

import os
import pathlib
import subprocess
import unittest

import checking
import landings
import rotation
from live_case import Fleet, LiveCase, answers

HERE = pathlib.Path(__file__).resolve().parent
FLEET = Fleet()
CONFORMANCE_SECONDS = 600


def setUpModule():
    unittest.addModuleCleanup(FLEET.stop)


def listed():
    lines = (HERE / "versions.txt").read_text(encoding="ascii").splitlines()
    return [line.split()[0] for line in lines if line and not line.startswith("#")]


@rotation.chosen("version")
class Versions(LiveCase):
    fleet = FLEET

    @classmethod
    def setUpClass(cls):
        """Each test has a server of its own."""

    @classmethod
    def tearDownClass(cls):
        """Nothing is left to stop."""

    def check_version(self, version):
        self.server = self.launch(version)
        try:
            self.server.wait_ready()
            fresh = answers(self.server)
            found, facts = checking.check(self, 0, self.server.place(), "--self-update", landings.checkpoint("v1"))
            self.assertEqual({"ok"}, set(checking.verdicts(found).values()), found)
            self.assertEqual((version, "plug-in"), (facts["software"], facts["wayIn"]))
            held = self.conform()
            self.assertEqual(fresh, answers(self.server))
        finally:
            self.server.stop()
        print(f"  vLLM {version}: engine check finds nothing, {held} checks of the contract hold", flush=True)

    def launch(self, version):
        installed = subprocess.run([HERE / "install.sh", version], stdout=subprocess.PIPE, text=True, check=True)
        program = os.path.join(installed.stdout.strip(), "bin/vllm")
        return self.fleet.launch(version, landings.checkpoint("v1"), self.ranks, backend="baton", program=program)

    def conform(self):
        """The number of checks that hold; all must."""
        url, page, token = self.server.place()
        argv = [os.path.join(os.environ["BATON_BUILD"], "tests/engine_conformance"),
                "--url", url, "--page", page, "--token", token, "--landing-a", self.fleet.landing["v1"][0],
                "--landing-b", self.fleet.landing["v2"][0]]  # fmt: skip
        done = subprocess.run(argv, capture_output=True, text=True, timeout=CONFORMANCE_SECONDS, check=False)
        self.assertEqual(0, done.returncode, done.stdout + done.stderr)
        return done.stdout.count("ok - ")


def _test_of(version):
    return lambda self: self.check_version(version)


for _version in rotation.of(listed()):
    setattr(Versions, f"test_{_version.replace('.', '_')}", _test_of(_version))

if __name__ == "__main__":
    unittest.main()
