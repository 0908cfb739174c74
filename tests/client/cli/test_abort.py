"""`oncelog transactions abort` asks the coordinators before it writes a marker. A marker for a
transaction that a coordinator knows would abort only a part of the transaction."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import click
import pytest

from oncelog.testing.wire import Wire
from oncelog_client import Admin, Producer, TopicPartition
from oncelog_client.admin import TransactionListing
from oncelog_client.cli.marker import abort_by_marker
from oncelog_protocol.errors import ErrorCode
from tests.client.cli.conftest import CommandLine
from tests.harness.client_reading import eventually, read_decided
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, end_transaction, new_identity, produce


@pytest.fixture
def wire(command_line: CommandLine) -> Iterator[Wire]:
    with Wire(command_line.address) as connection:
        yield connection


def in_both_partitions(wire: Wire, topic: str) -> Identity:
    """Begin a transaction with the topic's name as its id, and a record in each partition."""
    producer = new_identity(wire, topic)

    def written(partition: int) -> bool:
        data = batch(producer, 0, 1, b"in %d" % partition)
        sent = produce(wire, topic, data, producer=producer, partition=partition)
        return sent.error_code == ErrorCode.NONE

    # The controller may know a leader before that leader knows of its role.
    wait_until(lambda: written(0), "a record in partition 0")
    wait_until(lambda: written(1), "a record in partition 1")
    return producer


def place(topic: str) -> tuple[str, ...]:
    return "transactions", "abort", "--topic", topic, "--partition", "0"


def specified(producer: Identity, producer_epoch: int) -> tuple[str, ...]:
    return (
        *("--producer-id", str(producer.producer_id), "--producer-epoch", str(producer_epoch)),
        *("--coordinator-epoch", "0"),
    )


def test_the_abort_command_refuses_a_transaction_that_its_coordinator_knows(
    command_line: CommandLine, wire: Wire, topic: str
) -> None:
    """The command refuses for each kind of option that names the transaction, because the marker
    would end the transaction in one partition only."""
    producer = in_both_partitions(wire, topic)
    for named in (
        ("--start-offset", "0"),
        specified(producer, producer.producer_epoch),
        specified(producer, producer.producer_epoch + 1),
    ):
        refused = command_line.call(*place(topic), *named)
        assert refused.exit_code == 1
        assert f"{topic} has a transaction in {topic}-0 (Ongoing)" in refused.output
        assert f"`oncelog transactions force-terminate {topic}`" in refused.output
        assert f"`oncelog transactions blocking {topic} --abort {topic}`" in refused.output
        assert "--force" in refused.output
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    assert asyncio.run(read_decided(command_line.address, topic)) == [b"in 0", b"in 1"]


@pytest.mark.parametrize("force", ["--force", "--even-known"])
def test_the_abort_command_with_force_never_ends_a_part_of_a_transaction(
    command_line: CommandLine, wire: Wire, topic: str, force: str, request: pytest.FixtureRequest
) -> None:
    """Kafka writes the marker: the producer can still commit its transaction, but the records of
    one partition are lost. A broker of oncelog refuses the marker."""
    producer = in_both_partitions(wire, topic)
    if "kafka" in request.node.name:
        (done,) = command_line.json(*place(topic), "--start-offset", "0", force)
        assert (done["producer_id"], done["result"]) == (producer.producer_id, "aborted")
        expected = [b"in 1"]
    else:
        said = command_line.refused(*place(topic), "--start-offset", "0", force)
        assert f"the broker refuses the marker in {topic}-0" in said
        assert f"`oncelog transactions blocking {topic}`" in said
        expected = [b"in 0", b"in 1"]
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
    assert asyncio.run(read_decided(command_line.address, topic)) == expected


class Interrupted(Admin):
    """An admin client of an operator. `producer` commits just before this client lists the
    transactions."""

    def __init__(self, address: str, producer: Producer, transactional_id: str) -> None:
        super().__init__(address)
        self._producer = producer
        self._id = transactional_id

    async def list_transactions(self, **asked: Any) -> list[TransactionListing]:
        await self._producer.commit_transaction()

        async def complete() -> bool:
            described = await self.describe_transactions([self._id])
            return described[self._id].state == "CompleteCommit"

        await eventually(complete)
        return await super().list_transactions(**asked)


async def test_a_transaction_that_ends_before_the_coordinators_are_asked_gets_no_marker(
    command_line: CommandLine, topic: str
) -> None:
    """The transaction ends between the first look at the partition and the request to the
    coordinators. A marker would then end the producer's next transaction."""
    async with Producer(command_line.address, transactional_id=topic) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send(topic, b"whole", partition=0))
        async with Interrupted(command_line.address, producer, topic) as admin:
            with pytest.raises(click.ClickException, match="no open transaction begins"):
                await abort_by_marker(admin, TopicPartition(topic, 0), 0, force=False)
    assert await read_decided(command_line.address, topic) == [b"whole"]
