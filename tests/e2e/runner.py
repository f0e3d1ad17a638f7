#!/usr/bin/env python3
"""Runs test files of this folder and prints a line for each test, as the suites do.

usage: runner.py [--prefix TEXT] FILE[:CLASS[.TEST]]...
  ok - [TEXT ]FILE.CLASS.TEST (seconds)     not ok - ...     skip - ...: REASON
Exit 0 only if no test failed. Details of a failure stand before its line, indented.
"""

import argparse
import contextlib
import io
import os
import sys
import time
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))


class Lines(unittest.TestResult):
    """Prints while tests run; what a test itself prints is shown only if it fails."""

    def __init__(self, prefix, out):
        super().__init__()
        self.prefix, self.out, self.bad, self.said = prefix, out, False, io.StringIO()
        self.before = time.monotonic()

    def say(self, line):
        print(line, file=self.out, flush=True)

    def name(self, test):
        return self.prefix + test.id().replace("__main__.", "")

    def startTest(self, test):  # pylint: disable=invalid-name
        super().startTest(test)
        self.bad, self.before = False, time.monotonic()
        self.said.truncate(0)

    def details(self, text):
        said = self.said.getvalue()
        for line in (said + text).splitlines()[-150:]:
            self.say("  " + line[:500])

    def failed(self, test, error, where=""):
        self.bad = True
        self.details(self._exc_info_to_string(error, test))
        self.say(f"not ok - {self.name(test)}{where}")

    def addError(self, test, err):  # pylint: disable=invalid-name
        super().addError(test, err)
        self.failed(test, err)

    def addFailure(self, test, err):  # pylint: disable=invalid-name
        super().addFailure(test, err)
        self.failed(test, err)

    def addSubTest(self, test, subtest, err):  # pylint: disable=invalid-name
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.failed(test, err, " " + subtest._subDescription())  # pylint: disable=protected-access

    def addSuccess(self, test):  # pylint: disable=invalid-name
        super().addSuccess(test)
        if not self.bad:
            self.say(f"ok - {self.name(test)} ({time.monotonic() - self.before:.1f} s)")

    def addSkip(self, test, reason):  # pylint: disable=invalid-name
        super().addSkip(test, reason)
        self.say(f"skip - {self.name(test)}: {reason}")

    def addUnexpectedSuccess(self, test):  # pylint: disable=invalid-name
        super().addUnexpectedSuccess(test)
        self.say(f"not ok - {self.name(test)}: it was expected to fail")


def main():
    parser = argparse.ArgumentParser(description="Runs end-to-end tests and prints a line for each.")
    parser.add_argument("--prefix", default="")
    parser.add_argument("files", nargs="+", metavar="FILE[:CLASS[.TEST]]")
    options = parser.parse_args()
    result = Lines(options.prefix + " " if options.prefix else "", sys.stdout)
    suite = unittest.TestSuite()
    for word in options.files:
        module, _, names = os.path.basename(word).partition(":")
        module = module.removesuffix(".py")
        suite.addTest(unittest.defaultTestLoader.loadTestsFromName(f"{module}.{names}" if names else module))
    with contextlib.redirect_stdout(result.said):
        suite.run(result)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
