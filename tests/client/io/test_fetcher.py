"""The contents of a Fetch request, and the effects of its response."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from itertools import count

import pytest

from oncelog_client.core.subscription import Subscription
from oncelog_client.errors import RetriableError
from oncelog_client.io import fetcher as fetcher_module
from oncelog_client.io.fetcher import Fetcher
from oncelog_protocol.messages.fetch import EpochEndOffset
from oncelog_protocol.records.record import Record
from tests.client.io.scripted_leader import TP, Leader, answer, batch, reading


@pytest.fixture
async def reader() -> AsyncIterator[tuple[Subscription, Fetcher, Leader]]:
    async with reading() as parts:
        yield parts


async def test_a_fetch_has_the_epoch_of_the_last_record_before_its_offset(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    _, fetcher, leader = reader
    fetcher.pump()
    asked, response = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (0, -1)
    response.set_result(answer(records=batch(0, 3, epoch=1) + batch(3, 3, epoch=2)))
    asked, response = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 2)
    assert len(fetcher.records.take(3)) == 3
    fetcher.records.take(10)
    response.set_result(answer())
    asked, _ = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 2)


async def test_records_fetched_ahead_are_dropped_if_the_log_has_lost_them(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    subscription, fetcher, leader = reader
    fetcher.pump()
    _, response = await leader.asked()
    response.set_result(answer(records=batch(0, 3, epoch=1) + batch(3, 3, epoch=1)))
    _, response = await leader.asked()
    assert [record.offset for record in fetcher.records.take(3)] == [0, 1, 2]
    response.set_result(answer(diverging_epoch=EpochEndOffset(epoch=1, end_offset=3)))
    asked, response = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (3, 1)
    assert fetcher.records.take(10) == []
    response.set_result(answer(records=batch(3, 2, epoch=2)))
    await leader.asked()
    assert [record.offset for record in fetcher.records.take(10)] == [3, 4]
    assert subscription[TP].position == 5


async def test_an_epoch_that_the_log_does_not_have_is_replaced_and_the_position_kept(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    """The broker responds that its log diverges after the last offset of epoch 3. This offset is
    after the position, so the consumer keeps the position and continues in epoch 3."""
    subscription, fetcher, leader = reader
    subscription[TP].jump(6, 5)
    fetcher.pump()
    _, response = await leader.asked()
    response.set_result(answer(diverging_epoch=EpochEndOffset(epoch=3, end_offset=9)))
    asked, _ = await leader.asked()
    assert (asked.fetch_offset, asked.last_fetched_epoch) == (6, 3)


@pytest.mark.parametrize("step_ms", [0.25, 0.5, 1.0, 1.5])
async def test_every_failed_fetch_is_repeated_by_the_timer_of_the_fetcher(
    reader: tuple[Subscription, Fetcher, Leader],
    monkeypatch: pytest.MonkeyPatch,
    step_ms: float,
) -> None:
    """Each reading of the clock moves it by `step_ms`, so a pause ends between two readings. After
    the first fetch, only the timer starts a fetch."""
    _, fetcher, leader = reader
    times_ms = count(start=0.0, step=step_ms)
    monkeypatch.setattr(fetcher_module, "monotonic_ms", lambda: next(times_ms))
    monkeypatch.setattr(fetcher_module, "fraction", lambda: 0.5)
    fetcher.pump()
    for _ in range(4):
        _, response = await leader.asked()
        response.set_exception(RetriableError("no response"))
    asked, _ = await leader.asked()
    assert asked.fetch_offset == 0


async def test_without_a_backoff_a_failed_fetch_is_repeated_at_once() -> None:
    async with reading(retry_backoff_ms=0) as (_, fetcher, leader):
        fetcher.pump()
        for _ in range(4):
            _, response = await leader.asked()
            response.set_exception(RetriableError("no response"))
        asked, _ = await leader.asked()
        assert asked.fetch_offset == 0


async def test_a_later_failure_does_not_replace_the_timer_of_an_earlier_one(
    reader: tuple[Subscription, Fetcher, Leader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pause of another partition lasts a minute longer. Nothing but the timer of the first
    pause starts the fetch in time."""
    _, fetcher, leader = reader
    now_ms = 0.0
    monkeypatch.setattr(fetcher_module, "monotonic_ms", lambda: now_ms)
    monkeypatch.setattr(fetcher_module, "fraction", lambda: 0.5)
    fetcher.pump()
    _, response = await leader.asked()
    response.set_exception(RetriableError("no response"))
    await asyncio.sleep(0)  # the callback of the response runs
    assert fetcher._timer is not None
    now_ms = 1.5
    fetcher._resume_at(60_000, now_ms)
    asked, _ = await leader.asked()
    assert asked.fetch_offset == 0


async def test_records_of_a_partition_without_a_response_are_not_counted_as_open(
    reader: tuple[Subscription, Fetcher, Leader],
) -> None:
    """The partition was assigned again after the records were returned."""
    subscription, fetcher, _ = reader
    uncommitted = fetcher.count_uncommitted()
    uncommitted.give(TP, 1, [Record(0, 0, None, b"v")])
    assert subscription[TP].last_stable_offset == -1
    assert uncommitted.count() == (0, 0)
    subscription[TP].last_stable_offset = 0
    assert uncommitted.count() == (0, 1)
