"""The brokers of the pytest plugin: which broker a test gets, and its repair after each test."""

from __future__ import annotations

from pathlib import Path

import pytest

from oncelog.testing import Broker
from tests.testing.test_plugin import outcomes, run

# Each test uses `oncelog_broker` without `oncelog`.
BREAKING = """
import pytest

def test_kills(oncelog_broker):
    oncelog_broker.kill()

def test_runs_after_the_kill(oncelog):
    oncelog.topic("t").produce(b"x")

def test_pauses(oncelog_broker):
    oncelog_broker.pause()

def test_runs_after_the_pause(oncelog):
    oncelog.topic("t").produce(b"x")

def test_leaves_a_fault(oncelog_broker):
    oncelog_broker.faults.fail("InitProducerId", "INVALID_PRODUCER_EPOCH", times=None)

def test_advances_the_clock(oncelog_broker):
    oncelog_broker.clock.advance(days=1)

def test_runs_after_faults(oncelog, oncelog_broker):
    assert not oncelog_broker.clock.is_ahead
    oncelog.hang(oncelog.id("billing"), topic := oncelog.topic("t"))
    oncelog.fence(oncelog.id("billing"))
    assert topic.aborted() == [b"hanging"]
"""


def test_the_broker_is_repaired_after_a_test_that_uses_only_the_broker(tmp_path: Path) -> None:
    done = run(tmp_path, BREAKING)
    assert outcomes(done.stdout) == {"passed": 7, "warning": 1}, done.stdout
    assert "no request met the fault fail('InitProducerId')" in done.stdout


# Fixtures of the application with wider scopes hold the broker of the run.
WIDE = """
import pytest

@pytest.fixture(scope="session")
def application(oncelog_broker):
    return oncelog_broker

def test_kills(application):
    application.kill()

def test_runs_after_the_kill(application):
    assert application.is_running

def test_is_the_same(application, oncelog_test_broker, oncelog):
    assert application is oncelog_test_broker is oncelog.broker

@pytest.mark.oncelog(fresh=True)
def test_has_another(application, oncelog_test_broker):
    assert application is not oncelog_test_broker
"""


def test_the_broker_of_the_run_is_for_fixtures_of_every_scope(tmp_path: Path) -> None:
    done = run(tmp_path, WIDE)
    assert outcomes(done.stdout) == {"passed": 4}, done.stdout


MARKED = """
import pytest

@pytest.fixture(scope="session")
def application(oncelog_broker):
    return oncelog_broker

@pytest.fixture
def killer(oncelog_test_broker):
    return oncelog_test_broker.kill

@pytest.mark.oncelog({arguments})
def test_kills_its_own(killer, oncelog_test_broker, oncelog):
    assert oncelog_test_broker is oncelog.broker
    killer()
    assert not oncelog.broker.is_running

@pytest.mark.oncelog({arguments})
def test_has_its_own_without_a_namespace(oncelog_test_broker, application):
    assert oncelog_test_broker is not application
    oncelog_test_broker.kill()
    assert application.is_running
"""


@pytest.mark.parametrize("arguments", ["fresh=True", 'settings={"num.partitions": 3}'])
def test_the_broker_of_a_marked_test_is_its_own(tmp_path: Path, arguments: str) -> None:
    done = run(tmp_path, MARKED.format(arguments=arguments))
    assert outcomes(done.stdout) == {"passed": 2}, done.stdout


def test_the_broker_of_the_run_is_refused_to_a_marked_test(tmp_path: Path) -> None:
    """It would kill the broker of all tests, and pass."""
    suite = """
import pytest

@pytest.mark.oncelog(fresh=True)
def test_kills_another(oncelog, oncelog_broker):
    oncelog_broker.kill()
"""
    done = run(tmp_path, suite)
    assert outcomes(done.stdout) == {"failed": 1}, done.stdout
    assert "this test has a broker of its own" in done.stdout


# A fixture of the application fails to end, because the test has killed its broker.
FAILING_FIXTURE = """
import pytest

@pytest.fixture
def application(oncelog_broker):
    yield oncelog_broker
    raise RuntimeError("the application cannot end")

def test_kills(application):
    application.kill()

def test_leaves_a_fault(application):
    assert application.is_running
    application.faults.fail("CreateTopics", "NOT_CONTROLLER", times=None)

def test_next(oncelog_broker):
    assert oncelog_broker.is_running
    assert oncelog_broker.faults.pending() == 0
"""


def test_the_broker_is_repaired_after_a_fixture_that_failed_to_end(tmp_path: Path) -> None:
    done = run(tmp_path, FAILING_FIXTURE, "--oncelog-strict")
    assert outcomes(done.stdout) == {"passed": 3, "errors": 2}, done.stdout
    # The error of the fixture stays: no report of leftovers replaces it.
    assert "the test has left" not in done.stdout


# The plugin cannot find out what the test has left, or a broker cannot stop.
FAILING_END = """
import asyncio, pytest
from oncelog import Admin

def fail(*_):
    raise RuntimeError("the end fails")

def test_leftovers_fail(oncelog):
    oncelog.topic("invoices")
    oncelog.leftovers = fail

def test_fencing_fails(oncelog):
    oncelog.hang(oncelog.id("billing"), oncelog.topic("invoices"))
    admin = oncelog._thread.run(oncelog._thread.admin())
    admin.fence_producers = fail

async def test_next(oncelog_broker):
    async with Admin(bootstrap_servers=oncelog_broker.bootstrap_servers) as admin:
        assert await admin.list_topics() == {}

def test_brokers_cannot_stop(oncelog_broker_factory):
    global brokers
    brokers = oncelog_broker_factory(), oncelog_broker_factory()
    for broker in brokers:
        broker.stop = fail

def test_the_brokers_are_gone():
    assert not [broker for broker in brokers if broker.directory.exists() or broker.is_running]
"""


def test_the_first_failure_at_the_end_of_a_test_skips_no_later_step(tmp_path: Path) -> None:
    done = run(tmp_path, FAILING_END)
    found = outcomes(done.stdout)
    assert (found["passed"], found["errors"]) == (5, 3), done.stdout


CLOSING = """
def test_closes_its_broker(oncelog_broker_factory):
    oncelog_broker_factory().close()
    assert False, "the application complains"

def test_closes_the_broker_of_the_run(oncelog_broker):
    oncelog_broker.close()
    assert False, "the application complains"

def test_next(oncelog_broker):
    assert oncelog_broker.is_running
"""


def test_the_report_of_a_test_that_has_closed_its_broker_says_what_is_not_known(
    tmp_path: Path,
) -> None:
    done = run(tmp_path, CLOSING)
    assert outcomes(done.stdout) == {"failed": 2, "passed": 1}, done.stdout
    assert done.stdout.count("not known: FileNotFoundError") == 2


CLOSED_BEFORE = """
import pytest

@pytest.fixture
def closed(oncelog_broker):
    oncelog_broker.close()

def test_has_a_closed_broker(closed, oncelog_broker):
    assert not oncelog_broker.is_running
"""


def test_a_fixture_may_close_the_broker_of_the_run(tmp_path: Path) -> None:
    done = run(tmp_path, CLOSED_BEFORE)
    assert outcomes(done.stdout) == {"passed": 1}, done.stdout


# Every test needs faults, or raises an exception that only looks so.
FAULTLESS = """
import asyncio, pytest

@pytest.fixture
def faulty(oncelog):
    oncelog.faults.fail("EndTxn", "NOT_COORDINATOR")

def test_in_a_fixture(faulty): ...

@pytest.fixture
def ended(oncelog):
    yield
    oncelog.faults.clear()

def test_at_the_end_of_a_fixture(ended): ...

def test_in_the_test_and_at_the_end(oncelog, ended):
    oncelog.clock.advance(minutes=1)

@pytest.fixture
def ended_too(oncelog):
    yield
    oncelog.faults.clear()

def test_at_the_end_of_two_fixtures(ended, ended_too): ...

async def test_in_a_group_of_tasks(oncelog):
    async def advance():
        oncelog.clock.advance(minutes=1)

    async with asyncio.TaskGroup() as outer:
        async with asyncio.TaskGroup() as inner:
            inner.create_task(advance())
        outer.create_task(advance())

async def test_fails_in_a_group_of_tasks(oncelog):
    async def advance():
        oncelog.clock.advance(minutes=1)

    async def fail():
        raise ValueError("the application fails")

    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(advance())
        tasks.create_task(fail())

@pytest.fixture
def failing(oncelog):
    yield
    raise ValueError("the application cannot end")

def test_fails_at_the_end_of_a_fixture(failing, ended): ...
"""


def test_a_test_that_needs_faults_skips_on_a_broker_without_faults(
    tmp_path: Path, oncelog_broker: Broker
) -> None:
    address = oncelog_broker.bootstrap_servers
    done = run(tmp_path, FAULTLESS, "--oncelog-broker", address, "--oncelog-strict")
    found = outcomes(done.stdout)
    # The tests that end with a skip or an error in a fixture have passed before.
    assert found == {"passed": 3, "skipped": 5, "failed": 1, "error": 1}, done.stdout
