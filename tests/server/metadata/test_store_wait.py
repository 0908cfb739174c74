"""A start repeats its steps until the metadata store serves them, or until one deadline."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.store import FinalFailure, LostMetadata, UnknownOutcome
from oncelog_server.metadata import store_wait
from oncelog_server.metadata.id_conflict import IdInUse
from oncelog_server.metadata.store_wait import StoreSilent, StoreWait
from oncelog_server.refusal import Refused, StoreFailed
from oncelog_server.settings.model import Settings

ETCD = Settings(oncelog_etcd_endpoints=("http://a:2379", "http://b:2379"))
WAITS = "the broker waits for its metadata"
DEADLINE_S = 10


def wait_of(timeout_ms: int = 60_000, settings: Settings = ETCD) -> StoreWait:
    return StoreWait(replace(settings, initial_broker_registration_timeout_ms=timeout_ms))


def failing(*failures: Exception) -> Callable[[], Awaitable[str]]:
    """Return an attempt that fails in these ways, and then succeeds."""
    left = list(failures)

    async def attempt() -> str:
        if left:
            raise left.pop(0)
        return "done"

    return attempt


def store_failed(cause: Exception) -> StoreFailed:
    failed = StoreFailed(ErrorCode.KAFKA_STORAGE_ERROR, "no response")
    failed.__cause__ = cause
    return failed


async def test_failures_of_the_store_are_retried_and_logged_once() -> None:
    failures = OSError("silent"), UnknownOutcome("lost"), store_failed(OSError("silent"))
    with structlog.testing.capture_logs() as logged:
        assert await wait_of().step("a thing", failing(*failures), pause_s=0.0) == "done"
    assert [row["reason"] for row in logged if row["event"] == WAITS] == ["silent"]
    assert [row["awaited"] for row in logged] == ["a thing", "a thing"]


@pytest.mark.parametrize(
    "failure",
    [
        IdInUse("id 1"),
        LostMetadata("it was emptied"),
        FinalFailure("a wrong password"),
        Refused(ErrorCode.INVALID_REQUEST, "never"),
        ValueError("a record that cannot be decoded"),
    ],
)
async def test_a_definite_failure_ends_the_start_at_once(failure: Exception) -> None:
    with pytest.raises(type(failure)) as raised:
        await wait_of().step("a thing", failing(failure))
    assert raised.value is failure


async def test_a_definite_failure_of_a_write_ends_the_start_at_once() -> None:
    with pytest.raises(FinalFailure, match="a wrong password"):
        await wait_of().step("a thing", failing(store_failed(FinalFailure("a wrong password"))))


async def test_all_steps_have_one_deadline() -> None:
    wait = wait_of(200)

    async def steps() -> None:
        for _ in range(100):
            await wait.step("a thing", failing(*[OSError("silent")] * 3), pause_s=0.01)

    with pytest.raises(StoreSilent) as raised:
        await steps()
    assert str(raised.value) == (
        "etcd at http://a:2379, http://b:2379 has not served this start within 200 ms "
        "(initial.broker.registration.timeout.ms): the broker awaited a thing. "
        "Last failure: silent. Start etcd, or correct oncelog.etcd.endpoints"
    )


async def test_a_step_that_hangs_ends_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such a step waits for changes of the store that never arrive."""
    monkeypatch.setattr(store_wait, "CALL_S", 0.0)
    async with asyncio.timeout(DEADLINE_S):
        with pytest.raises(StoreSilent, match="no change of the metadata arrives"):
            await wait_of(20).step("a thing", asyncio.Event().wait)


async def test_after_the_deadline_a_step_has_one_attempt() -> None:
    wait = wait_of(0)
    assert await wait.step("a thing", failing()) == "done"
    with pytest.raises(StoreSilent):
        await wait.step("a thing", failing(OSError("silent")))


async def test_a_store_in_the_data_directory_is_not_awaited() -> None:
    """The database waits for a lock by itself, and nothing else can bring the store back."""
    wait = wait_of(settings=Settings())
    for failure in (OSError("the database is locked"), store_failed(OSError("full"))):
        with pytest.raises(type(failure)) as raised:
            await wait.step("a thing", failing(failure))
        assert raised.value is failure


async def test_the_store_of_the_first_broker_is_named() -> None:
    with pytest.raises(StoreSilent, match="the first broker of this machine, in /data, has not"):
        await wait_of(0, Settings(first_broker="/data")).step("a thing", failing(OSError("x")))


async def test_work_without_the_store_does_not_count() -> None:
    wait = wait_of(1_000)
    loop = asyncio.get_running_loop()
    left_s = wait.ends_s - loop.time()
    with wait.uncounted():
        await asyncio.sleep(0.05)
    assert wait.ends_s - loop.time() == pytest.approx(left_s, abs=0.02)
