"""Runs the checks of a miniengine binary against the committed checkpoints.

usage: run.py --engine BINARY --seal BINARY --data tests/data [--only TEXT]"""

import argparse
import json
import os
import tempfile

import faults
import guard
import model
import pause
import transfer
from harness import Counter, Setup


def main():
    options = argparse.ArgumentParser()
    for name in ("engine", "seal", "data"):
        options.add_argument("--" + name, required=True)
    options.add_argument("--only", default="")
    given = options.parse_args()
    Setup.engine, Setup.seal, Setup.data = given.engine, given.seal, os.path.abspath(given.data)
    with open(os.path.join(Setup.data, "expected.json"), encoding="utf-8") as file:
        Setup.expected = json.load(file)
    counter = Counter()
    with tempfile.TemporaryDirectory(prefix="miniengine-") as scratch:
        Setup.scratch = scratch
        for part in (model, pause, guard, transfer, faults):
            for check in part.CHECKS:
                counter.run(check, given.only)
    counter.close()


if __name__ == "__main__":
    main()
