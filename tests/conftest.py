"""What every test has: uvloop as the loop, the brokers to test with, and no silent skip on CI."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Callable, Generator, Mapping

import pytest
import uvloop
from hypothesis import HealthCheck, settings

from tests.kafka.fixtures import fresh_kafka, kafka, kafka_jars
from tests.lanes import Guard, mark

__all__ = ["fresh_kafka", "kafka", "kafka_jars"]

ON_CI = os.environ.get("CI") == "true"

# A slow example says something about the machine, which is shared, not about the code.
settings.register_profile("steady", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("steady")


def pytest_asyncio_loop_factories(
    config: pytest.Config, item: pytest.Item
) -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Async tests run on the loop the broker runs on."""
    return {"uvloop": uvloop.new_event_loop}


# A shell starts a background job with SIGINT ignored, and every process of a test inherits that.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

_GUARD = Guard()
sys.addaudithook(_GUARD)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        mark(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    _GUARD.running = item
    try:
        return (yield)
    finally:
        _GUARD.running = None


def _refuse_skip(report: pytest.TestReport | pytest.CollectReport) -> None:
    """On CI a skip is a failure: what a test needs is there, or the run is worth nothing."""
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
