"""Countersign's way to run `python -m unittest`: the same program with the same arguments, and one line for each test
written where the verifier reads them.

It lies in a directory that no job can write to, under a name that is new in every run. Code under test shares this
process, so a line is its word. A canary, tests that must fail, runs last, through the same kind of result.
"""

import hashlib
import io
import json
import os
import sys
import types
import unittest

# Bound now: code under test, which comes later, may replace what modules hold.
_dumps, _write, _getpid = json.dumps, os.write, os.getpid
_sha256 = hashlib.sha256
_TestResult, _TestCase = unittest.TestResult, unittest.TestCase

_HERE = os.path.dirname(os.path.abspath(__file__))
_PID = _getpid()
_LONGEST_ID = 3000
_BADNESS = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}
_FAILED_TO_LOAD = "unittest.loader._FailedTest."
__unittest = True


def _forget_the_way_here():
    """Processes that tests start see the environment as it would be without us."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    left = [part for part in parts if part and os.path.abspath(part) != _HERE]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)
    sys.path[:] = [entry for entry in sys.path if entry != _HERE]


def _id(text):
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text.encode("utf-8")) > _LONGEST_ID:
        text = text[: _LONGEST_ID // 4] + "#" + _sha256(text.encode("utf-8")).hexdigest()
    return text


class _Report:
    def __init__(self, path):
        self.fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self.worst = {}

    def line(self, **fields):
        # A process that a test forked must not speak for us.
        if _getpid() == _PID:
            _write(self.fd, (_dumps(fields) + "\n").encode("ascii"))

    def saw(self, test, status):
        before = self.worst.get(test, "passed")
        self.worst[test] = max(before, status, key=_BADNESS.get)

    def broken(self, test):
        """A module that could not be loaded, or a set-up of many tests that failed."""
        name = test.id()
        if name.startswith(_FAILED_TO_LOAD):
            name = name[len(_FAILED_TO_LOAD) :]
        elif " (" in name:
            name = name.split(" (", 1)[1].rstrip(")")
        self.line(collector=_id(name))

    def stopped(self, test):
        status = self.worst.pop(test, None)
        if status is not None:
            self.line(id=_id(test.id()), status=status)


def _recording(base, report):
    class Recording(base):
        def addSuccess(self, test):
            report.saw(test, "passed")
            super().addSuccess(test)

        def addFailure(self, test, err):
            report.saw(test, "failed")
            super().addFailure(test, err)

        def addError(self, test, err):
            if isinstance(test, _TestCase) and not test.id().startswith(_FAILED_TO_LOAD):
                report.saw(test, "error")
            else:
                report.broken(test)
            super().addError(test, err)

        def addSkip(self, test, reason):
            report.saw(test, "skipped")
            super().addSkip(test, reason)

        def addExpectedFailure(self, test, err):
            report.saw(test, "skipped")
            super().addExpectedFailure(test, err)

        def addUnexpectedSuccess(self, test):
            report.saw(test, "failed")
            super().addUnexpectedSuccess(test)

        def addSubTest(self, test, subtest, err):
            if err is not None:
                report.saw(test, "failed")
            super().addSubTest(test, subtest, err)

        def stopTest(self, test):
            report.stopped(test)
            super().stopTest(test)

    return Recording


class _Canary:
    """Hears of canaries what the report hears of tests."""

    def __init__(self, report, module):
        self.report, self.module = report, module
        self.status = {}

    def saw(self, test, status):
        self.status[test] = max(self.status.get(test, "passed"), status, key=_BADNESS.get)

    def broken(self, test):
        self.status[test] = "error"

    def stopped(self, test):
        self.report.line(canary=test.id().rsplit(".", 1)[-1], status=self.status.get(test, "passed"))

    def run(self):
        result = _recording(unittest.TextTestResult, self)(_Stream(), False, 0)
        for name in ("test_assertions", "test_failure"):
            self.module.Canary(name).run(result)


class _Stream(io.StringIO):
    def writeln(self, text=None):
        self.write((text or "") + "\n")


def _module(source, name):
    module = types.ModuleType(name)
    exec(compile(source, name, "exec"), module.__dict__)
    return module


def main(nonce):
    # While the way here is still known.
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "countersign_canary_%s.py" % nonce)) as file:
        canary = file.read()
    _forget_the_way_here()
    report = _Report("/run/countersign/report/%s/unittest" % nonce)
    report.line(begin="unittest", version=sys.version.split()[0])

    class Runner(unittest.TextTestRunner):
        resultclass = _recording(unittest.TextTestResult, report)

        def run(self, test):
            result = super().run(test)
            # Made only now and named like a test: what was done to the making of tests is done to it, too.
            _Canary(report, _module(canary, "test_countersign_" + nonce)).run()
            report.line(end=0 if result.wasSuccessful() else 1)
            return result

    # As `unittest/__main__.py` does it.
    sys.argv[0] = os.path.basename(sys.executable) + " -m unittest"
    unittest.main(module=None, testRunner=Runner)


if __name__ == "__main__":
    main(os.path.splitext(os.path.basename(__file__))[0].rsplit("_", 1)[-1])
