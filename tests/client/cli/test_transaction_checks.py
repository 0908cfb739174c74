"""The checks of transactions: brokers under load, silent coordinators, many groups."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from typing import Any, cast

import pytest

from oncelog_client.admin import Admin, GroupListing, PartitionLag, ProducerState
from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.findings import OK, Row, row_of
from oncelog_client.cli.group_lags import MOST_AT_ONCE
from oncelog_client.cli.hanging import before_an_abort, describe_by_producer
from oncelog_client.cli.timed_checks import run_checks
from oncelog_client.cli.transaction_checks import transactions
from oncelog_client.errors import RetriableError
from oncelog_client.values import (
    OffsetAndMetadata,
    OffsetAndTimestamp,
    PartitionInfo,
    TopicPartition,
)

PLACE = TopicPartition("orders", 0)
ELSEWHERE = TopicPartition("bills", 0)
STATE = ClusterState({}, {}, {PLACE: PartitionInfo("orders", 0, 1)}, {})
GROUPS = 100


class Brokers:
    """The responses of brokers to an admin client. A record is appended before each of them. With
    `open_from`, a transaction is open from this offset on, without a coordinator that knows it."""

    def __init__(self, open_from: int | None = None, *, is_silent: bool = False) -> None:
        self.end = 10
        self.open_from = open_from
        self.is_silent = is_silent
        self.list_groups_calls = 0
        self.in_flight: set[str] = set()
        self.most_in_flight = 0
        self.released = asyncio.Event()
        self.released.set()
        self.described: list[str] = []

    async def list_offsets(
        self, specs: Iterable[TopicPartition], isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, OffsetAndTimestamp]:
        self.end += 1
        is_stable = isolation_level == "read_committed" and self.open_from is not None
        offset = self.open_from if is_stable else self.end
        await asyncio.sleep(0)
        return {place: OffsetAndTimestamp(cast("int", offset), -1, None) for place in specs}

    async def describe_producers(
        self, places: Iterable[TopicPartition], broker_id: int | None = None
    ) -> dict[TopicPartition, list[ProducerState]]:
        state = ProducerState(7, 0, 0, 0, 0, self.open_from)
        return {place: [state] if self.open_from is not None else [] for place in places}

    async def list_transactions(self, **_: object) -> list[Any]:
        if self.is_silent:
            raise RetriableError("broker 1 cannot list all transactions")
        return []

    async def may_write_markers(self) -> bool:
        return True

    async def list_groups(self) -> list[GroupListing]:
        self.list_groups_calls += 1
        return [GroupListing(f"g{at}", "consumer", "Empty") for at in range(GROUPS)]

    async def list_group_offsets(self, group: str) -> dict[TopicPartition, OffsetAndMetadata]:
        self.in_flight.add(group)
        self.most_in_flight = max(self.most_in_flight, len(self.in_flight))
        await self.released.wait()
        await asyncio.sleep(0)
        self.in_flight.remove(group)
        return {PLACE if int(group[1:]) % 2 else ELSEWHERE: OffsetAndMetadata(3)}

    async def describe_group_lag(self, group: str) -> dict[TopicPartition, PartitionLag]:
        self.described.append(group)
        return {PLACE: PartitionLag(3, 3, self.end, 0, 5, True)}


def checked(brokers: Brokers) -> AsyncIterator[Row]:
    return transactions(cast("Admin", brokers), STATE)


async def test_records_that_are_appended_meanwhile_are_not_held_back() -> None:
    """The last stable offset, read before the ends, would be below them."""
    brokers = Brokers()
    rows = [row async for row in checked(brokers)]
    assert [(row.state, row.number) for row in rows] == [(OK, 0)] * 3
    assert brokers.list_groups_calls == 0


async def test_a_silent_coordinator_does_not_hide_the_rows_of_other_checks() -> None:
    """The message of a check that reads only does not say that nothing was aborted."""

    async def offline() -> AsyncIterator[Row]:
        yield row_of("offline partitions", "problem", ["orders-1"], "start the brokers")

    def failed(name: str, error: Exception) -> Row:
        return Row(name, "problem", 1, [str(error)])

    checks = {"transactions": checked(Brokers(5, is_silent=True)), "offline": offline()}
    found = await run_checks(checks, 60, failed)
    assert [row.check for row in found] == ["transactions", "offline partitions"]
    (said,) = found[0].what
    assert "until every coordinator responds" in said
    assert "aborted" not in said


async def test_an_abort_says_that_nothing_was_aborted() -> None:
    brokers = cast("Admin", Brokers(5, is_silent=True))
    with pytest.raises(Failed, match="nothing was aborted"), before_an_abort():
        await describe_by_producer(brokers, {7})


async def test_many_groups_delay_no_row_of_transactions() -> None:
    brokers = Brokers(5)
    brokers.released.clear()
    rows = checked(brokers)
    early = [await anext(rows), await anext(rows)]
    assert [row.number for row in early] == [1, 0]
    brokers.released.set()
    (last,) = [row async for row in rows]
    waiting = [f"g{at}" for at in range(GROUPS) if at % 2]
    assert last.what == waiting
    assert sorted(brokers.described) == sorted(waiting)
    assert brokers.most_in_flight == MOST_AT_ONCE
