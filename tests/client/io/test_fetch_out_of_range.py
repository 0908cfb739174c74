"""A consumer gets OFFSET_OUT_OF_RANGE while it still holds fetched records. It returns these
records first, and then resets the position."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_client.core.offset_reset import OffsetReset
from oncelog_client.core.subscription import Assigned
from oncelog_client.errors import OffsetOutOfRangeError
from oncelog_client.io.fetcher import Fetcher
from oncelog_protocol.errors import ErrorCode
from tests.client.io.scripted_leader import TP, Leader, answer, batch, reading


def place(state: Assigned) -> tuple[int | None, OffsetReset | None]:
    return state.position, state.reset


async def refuse(response: asyncio.Future[Any]) -> None:
    response.set_result(answer(error_code=ErrorCode.OFFSET_OUT_OF_RANGE))
    # After one turn of the loop, a callback of the future has read the response.
    await asyncio.sleep(0)


async def refused_ahead(fetcher: Fetcher, leader: Leader) -> None:
    """Let the leader return three records, and OFFSET_OUT_OF_RANGE for the offset after them."""
    fetcher.pump()
    _, response = await leader.asked()
    response.set_result(answer(records=batch(0, 3, epoch=1)))
    asked, response = await leader.asked()
    assert asked.fetch_offset == 3
    await refuse(response)


@pytest.mark.parametrize("reset", ["earliest", "latest"])
async def test_fetched_records_are_returned_before_the_position_is_reset(
    reset: OffsetReset,
) -> None:
    async with reading(auto_offset_reset=reset) as (subscription, fetcher, leader):
        state = subscription[TP]
        await refused_ahead(fetcher, leader)
        assert place(state) == (0, None)
        assert [record.offset for record in fetcher.records.take(10)] == [0, 1, 2]
        assert place(state) == (3, None)
        # The fetcher requests the same offset again. It holds no record now, so this response
        # resets the position.
        asked, response = await leader.asked()
        assert asked.fetch_offset == 3
        await refuse(response)
        assert place(state) == (None, reset)


async def test_without_a_reset_fetched_records_are_returned_before_the_error() -> None:
    async with reading(auto_offset_reset="none") as (subscription, fetcher, leader):
        await refused_ahead(fetcher, leader)
        fetcher.raise_failure()
        assert [record.offset for record in fetcher.records.take(10)] == [0, 1, 2]
        _, response = await leader.asked()
        await refuse(response)
        with pytest.raises(OffsetOutOfRangeError, match="t-0 at 3"):
            fetcher.raise_failure()
        assert place(subscription[TP]) == (3, None)


async def test_a_position_that_has_moved_is_not_reset_by_a_late_refusal() -> None:
    async with reading(auto_offset_reset="earliest") as (subscription, fetcher, leader):
        fetcher.pump()
        _, response = await leader.asked()
        subscription[TP].jump(40)
        await refuse(response)
        assert place(subscription[TP]) == (40, None)
        asked, _ = await leader.asked()
        assert asked.fetch_offset == 40
