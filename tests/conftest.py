"""Fixtures and hooks for every test: uvloop as the event loop, the brokers, and no silent skip on
CI."""

from __future__ import annotations

import asyncio
import gc
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping, Sequence
from pathlib import Path

import pytest
import uvloop

from tests.distribution import Distribution, ends_process
from tests.examples import load_profile
from tests.harness.broker import Oncelog
from tests.harness.etcd_fixtures import etcd_program, real_etcd
from tests.harness.kafka.fixtures import fresh_kafka, kafka, kafka_jars
from tests.harness.kafka.secured import secured_kafka
from tests.harness.repository import without_collections
from tests.harness.running_cluster import running_cluster
from tests.harness.running_oncelog import running_oncelog
from tests.lanes import DESELECTED, Guard, is_left_out, mark, order, path_of

__all__ = [
    "etcd_program",
    "fresh_kafka",
    "kafka",
    "kafka_jars",
    "real_etcd",
    "running_cluster",
    "running_oncelog",
    "secured_kafka",
    "without_collections",
]

ON_CI = os.environ.get("CI") == "true"

load_profile()
Oncelog.preloads = True


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Return the kind of event loop that the broker uses, for async tests."""
    return {"uvloop": uvloop.new_event_loop}


# A shell starts a background job with SIGINT ignored, and the processes of tests inherit that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_GUARD = Guard()
sys.addaudithook(_GUARD)


@pytest.fixture
def own_interpreter(monkeypatch: pytest.MonkeyPatch) -> None:
    """Start each broker of this test in a new interpreter, as a user does, and not as a fork of a
    process with all imports."""
    monkeypatch.setattr(Oncelog, "preloads", False)


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Exempt all objects that exist after the collection of the tests from garbage collection. They
    never become garbage, and the exemption saves a tenth of the quick lane's processor time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Ignore a file if the markers of this run exclude all its tests."""
    path = collection_path.relative_to(config.rootpath).as_posix()
    return True if is_left_out(path, config.option.markexpr) else None


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(
    config: pytest.Config, items: list[pytest.Item]
) -> Generator[None, object, object]:
    """Mark the tests before pytest selects some; order their files after pytest has sorted them."""
    for item in items:
        mark(item)
    result = yield
    if hasattr(config, "workerinput"):  # a process of xdist
        order(items)
    return result


def pytest_deselected(items: Sequence[pytest.Item]) -> None:
    """Keep the tests that `-k` leaves out, for a test that examines all tests."""
    if items:
        items[0].config.stash.setdefault(DESELECTED, []).extend(items)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> Distribution | None:
    """Return the scheduler for `--dist loadfile`, or None to let xdist choose its own scheduler."""
    return Distribution(config, log) if config.option.dist == "loadfile" else None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _GUARD.running = item
    try:
        return (yield)
    finally:
        _GUARD.running = None


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """After the last test that needs the Spark or Kafka of a process of xdist, end all fixtures. A
    later test starts what it needs again."""
    is_in_order = hasattr(item.config, "workerinput")
    if is_in_order and nextitem is not None and ends_process(path_of(item), path_of(nextitem)):
        item.session._setupstate.teardown_exact(None)


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """Fail a skipped test on CI, because CI must have everything that a test needs."""
    if ON_CI and report.skipped and not hasattr(report, "wasxfail"):
        reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else report.longrepr
        report.outcome = "failed"
        report.longrepr = f"skipped, which CI=true forbids: {reason}"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    _refuse_skip(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    report = yield
    _refuse_skip(report)
    return report
