"""Countersign's plug-in for pytest: one line for each test, written where the verifier reads them.

It lies in a directory that no job can write to, under a name that is new in every run. Code under test shares this
process, so a line is its word; what it takes is to aim at this very plug-in. A canary, an item that must fail, runs
last, behind everything that the tests imported, through the same runner and the same recording.
"""

import hashlib
import json
import os
import sys

import _pytest.runner
import pytest

# Bound now: code under test, which comes later, may replace what modules hold.
_dumps, _write, _getpid = json.dumps, os.write, os.getpid
_sha256, _AssertionError = hashlib.sha256, AssertionError

_HERE = os.path.dirname(os.path.abspath(__file__))
_NONCE = __name__.rsplit("_", 1)[-1]
_PID = _getpid()
_REPORT = os.open(
    "/run/countersign/report/%s/pytest" % _NONCE,
    os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC,
    0o600,
)
_LONGEST_ID = 3000
_BADNESS = {"passed": 0, "skipped": 1, "failed": 2, "error": 3}


def _forget_the_way_here():
    """Processes that tests start see the environment as it would be without us."""
    parts = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    left = [part for part in parts if part and os.path.abspath(part) != _HERE]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)


_forget_the_way_here()


def _line(fields, status=None):
    if status is not None:
        fields["status"] = status
    # A process that a test forked must not speak for us.
    if _getpid() == _PID:
        _write(_REPORT, (_dumps(fields) + "\n").encode("ascii"))


def _id(nodeid):
    text = nodeid.encode("utf-8", "backslashreplace").decode("utf-8")
    if len(text.encode("utf-8")) > _LONGEST_ID:
        text = text[: _LONGEST_ID // 4] + "#" + _sha256(text.encode("utf-8")).hexdigest()
    return text


def _status(call, report):
    if report.outcome == "failed":
        return "failed" if report.when == "call" else "error"
    if report.outcome == "skipped":
        return "skipped"
    # A pass beside an exception: something rewrote the report, or the test is tried again.
    return "passed" if report.outcome == "passed" and call.excinfo is None else "failed"


class _Recorder:
    def __init__(self):
        self.worst = {}
        self.canaries = []
        _line({"begin": "pytest", "version": pytest.__version__})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item, call):
        outcome = yield
        if outcome.excinfo is not None:
            return
        report = outcome.get_result()
        status = _status(call, report)
        canary = next((name for name, canary in self.canaries if canary is item), None)
        if canary and status == "failed" and not (call.excinfo and isinstance(call.excinfo.value, _AssertionError)):
            # It did not fail by what it asserts: it could not run.
            status = "error"
        before = self.worst.get(item, "passed")
        self.worst[item] = max(before, status, key=_BADNESS.get)
        if report.when == "teardown":
            status = self.worst.pop(item)
            _line({"canary": canary} if canary else {"id": _id(item.nodeid)}, status)

    def pytest_collectreport(self, report):
        if report.failed:
            _line({"collector": _id(report.nodeid)})

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self, session):
        config = session.config
        # With xdist the items run in processes of their own, each in an order that is decided elsewhere.
        spread = hasattr(config, "workerinput") or config.pluginmanager.hasplugin("dsession")
        if session.items and not spread and not config.option.collectonly:
            self.canaries = _canaries(session)
        session.items.extend(item for _, item in self.canaries)
        yield
        for _, canary in self.canaries:
            if canary in session.items:
                session.items.remove(canary)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self, item, nextitem):
        if not any(canary is item for _, canary in self.canaries):
            return None
        # Through the module, as pytest itself does it: a runner that was replaced shows. Nothing is logged, so that
        # neither output nor exit code know of it.
        _pytest.runner.runtestprotocol(item, log=False, nextitem=nextitem)
        return True

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_sessionfinish(self, session):
        yield
        if not hasattr(session.config, "workerinput"):
            _line({"end": int(session.exitstatus)})


def _canaries(session):
    """A function and a method of a test case, without fixtures of the project."""
    name = "countersign_canary_%s" % _NONCE
    found = []
    try:
        pytest.register_assert_rewrite(name)
        if _HERE not in sys.path:
            sys.path.append(_HERE)
        module = __import__(name)
        node = _module(session, os.path.join(_HERE, name + ".py"), module)
        options = _no_fixtures()
        found.append(
            ("function", pytest.Function.from_parent(node, name="canary", callobj=module.canary, **options))
        )
        from _pytest.unittest import TestCaseFunction, UnitTestCase

        case = UnitTestCase.from_parent(node, name="Canary", obj=module.Canary)
        found.append(("method", TestCaseFunction.from_parent(case, name="test_canary", **options)))
    except Exception:
        # A version of pytest that is built otherwise: without a canary a pass means less, and that is said.
        pass
    return found


def _module(session, path, module):
    try:
        import pathlib

        node = pytest.Module.from_parent(session, path=pathlib.Path(path), nodeid="canary")
    except TypeError:
        node = pytest.Module.from_parent(session, fspath=type(session.fspath)(path), nodeid="canary")
    node.obj = module
    return node


def _no_fixtures():
    from _pytest.fixtures import FuncFixtureInfo

    try:
        return {"fixtureinfo": FuncFixtureInfo((), (), [], {})}
    except TypeError:
        return {}


def pytest_configure(config):
    config.pluginmanager.register(_Recorder(), "countersign-" + _NONCE)
