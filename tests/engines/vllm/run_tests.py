"""Runs the test modules named on the command line: "ok - NAME", "not ok - NAME" or "skip - NAME: REASON"
for each test, and a closing count."""

import os
import signal
import sys
import time
import unittest

HERE = os.getcwd()  # The suite: its run.sh stands there.


class Lines(unittest.TestResult):
    """Prints each test as it ends.  A failed subtest fails its test."""

    def __init__(self):
        super().__init__()
        self.passed, self.bad = 0, set()

    def startTest(self, test):
        super().startTest(test)
        self._began = time.monotonic()

    def _problem(self, test, error, what):
        self.bad.add(test.id())
        print(f"  {what} {test.id()}\n{self._exc_info_to_string(error, test)}", flush=True)

    def addSubTest(self, test, subtest, error):
        if error is not None:
            self._problem(test, error, f"{subtest._subDescription()} of")

    def addFailure(self, test, error):
        self._problem(test, error, "failure in")

    def addError(self, test, error):
        self._problem(test, error, "error in")
        if not isinstance(test, unittest.TestCase):
            print(f"not ok - {test.id()}", flush=True)  # A class or module that could not be set up.

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        print(f"skip - {test.id()}: {reason}", flush=True)

    def addSuccess(self, test):
        """Also called for a test whose subtests failed: stopTest decides."""

    def stopTest(self, test):
        super().stopTest(test)
        if any(skipped is test for skipped, _ in self.skipped):
            return
        good = test.id() not in self.bad
        self.passed += good
        seconds = time.monotonic() - self._began
        print(f"{'ok' if good else 'not ok'} - {test.id()} ({seconds:.1f} s)", flush=True)


def interrupt(*_):
    """The one exception that unittest does not take for a test's own."""
    raise KeyboardInterrupt


def main(names):
    # Servers are stopped at exit, and a signal must end in one.
    signal.signal(signal.SIGTERM, interrupt)
    sys.path.insert(0, HERE)
    suite = unittest.defaultTestLoader.loadTestsFromNames(names)
    for module in {sys.modules[name.partition(".")[0]] for name in names}:
        if os.path.dirname(os.path.abspath(module.__file__)) != HERE:
            print(f"not ok - {module.__name__} is {module.__file__}, of another suite", flush=True)
            return 1
    result = Lines()
    try:
        suite.run(result)
    except KeyboardInterrupt:
        print("not ok - the run was ended from outside", flush=True)
        return 143
    print(f"{result.passed} passed, {len(result.bad)} failed, {len(result.skipped)} skipped")
    return 0 if result.passed and not result.bad else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
