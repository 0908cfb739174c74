"""A request with a producer id of another principal is refused by every API and version, and has no
effect (H49)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from oncelog_protocol.messages.add_partitions_to_txn import (
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnTopic,
    AddPartitionsToTxnTransaction,
)
from oncelog_protocol.messages.end_txn import EndTxnMember, EndTxnRequest
from oncelog_protocol.messages.init_producer_id import InitProducerIdRequest
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.producer_id_owners import ProducerIdOwners
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import (
    add_offsets_to_txn,
    add_partitions_to_txn,
    end_txn,
    init_producer_id,
    produce,
    txn_offset_commit,
)
from oncelog_server.security.resources import ANONYMOUS, Operation, Principal
from oncelog_server.settings.model import Settings
from oncelog_server.slices import SMALL
from oncelog_server.transaction.caller import Client
from tests.server.handlers.nodes import Denying, ask, broker
from tests.server.handlers.requests import codes
from tests.server.transaction.world import A0, A1, GROUP, OFFSETS, World, value_of
from tests.server.transaction.world_clock import WorldClock
from tests.simulation.effects import State, changed, state_of

ALICE, BOB = Principal("User", "alice"), Principal("User", "bob")
UNKNOWN = ErrorCode.INVALID_PRODUCER_ID_MAPPING
TOPIC, INPUT = A0.topic, "in"


class Scene(NamedTuple):
    """A broker with a transaction of ALICE: `producer` has written to A0 and has added the offsets
    of GROUP. `events` are the logged requests with another principal's id."""

    services: BrokerServices
    world: World
    producer: tuple[int, int]
    events: list[dict[str, Any]]

    def state(self) -> State:
        parts: Any = SimpleNamespace(
            partitions=self.world.partitions.values(),
            transactions=self.world.transactions,
            groups=self.world.groups,
            metadata=self.services.metadata,
        )
        return state_of(parts)


@asynccontextmanager
async def scene(authorizer: Any = None) -> AsyncIterator[Scene]:
    world = World(next_producer_id=BLOCK_SIZE)
    async with broker(Settings(transaction_two_phase_commit_enable=True), authorizer) as bare:
        await bare.metadata.create_topics([NewTopic(TOPIC, 2), NewTopic(INPUT)])
        for name in (A0, A1):
            world.partitions[name].topic_id = bare.metadata.image.topics[TOPIC].id
            bare.partitions.add(world.partitions[name])
        events: list[dict[str, Any]] = []
        owners = ProducerIdOwners(lambda **fields: events.append(fields))
        owners.follow({1: ALICE})
        services = replace(
            bare,
            clock=WorldClock(world),
            groups=world.groups,
            transactions=world.transactions,
            partition_adding=world.transactions.add_partitions,
            producer_id_owners=owners,
        )
        producer = world.producer("t", caller=Client("a", "/10.0.0.1", "User:alice"))
        world.produce(producer, A0, 0)
        value_of(world.add(producer, OFFSETS))
        yield Scene(services, world, producer, events)


def batch(scene: Scene, *, epoch: int = 0, transactional: bool = False) -> bytearray:
    """Return a batch of the producer, or of a later epoch of its id."""
    later = epoch > 0
    return build_batch(
        [NewRecord(scene.world.wall(), None, b"forged")],
        producer_id=scene.producer[0],
        producer_epoch=scene.producer[1] + epoch,
        base_sequence=0 if later else 1,
        is_transactional=transactional,
    )


def produced(scene: Scene, records: bytearray, transactional_id: str | None) -> ProduceRequest:
    topic_id = scene.services.metadata.image.topics[TOPIC].id
    data = [PartitionProduceData(0, records)]
    return ProduceRequest(
        transactional_id, -1, 1_000, [TopicProduceData(TOPIC, topic_id, partition_data=data)]
    )


def committed(scene: Scene) -> TxnOffsetCommitRequest:
    topic_id = scene.services.metadata.image.topics[INPUT].id
    partitions = [TxnOffsetCommitRequestPartition(0, 5)]
    topics = [TxnOffsetCommitRequestTopic(INPUT, topic_id, partitions=partitions)]
    return TxnOffsetCommitRequest("t", GROUP, *scene.producer, topics=topics)


class Row(NamedTuple):
    name: str
    handler: Any
    versions: range
    request: Callable[[Scene], Any]


def to_latest(handler: Any, first: int) -> range:
    return range(first, APIS[handler.API].latest + 1)


ROWS = [
    Row(
        "a batch with the next epoch",
        produce,
        to_latest(produce, 3),
        lambda scene: produced(scene, batch(scene, epoch=1), None),
    ),
    Row(
        "a batch with the same epoch",
        produce,
        to_latest(produce, 3),
        lambda scene: produced(scene, batch(scene), None),
    ),
    Row(
        "a batch of the transaction",
        produce,
        to_latest(produce, 3),
        lambda scene: produced(scene, batch(scene, transactional=True), "t"),
    ),
    Row(
        "AddPartitionsToTxn",
        add_partitions_to_txn,
        range(4),
        lambda scene: AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="t",
            v3_and_below_producer_id=scene.producer[0],
            v3_and_below_producer_epoch=scene.producer[1],
            v3_and_below_topics=[AddPartitionsToTxnTopic(TOPIC, [1])],
        ),
    ),
    Row(
        "AddOffsetsToTxn",
        add_offsets_to_txn,
        to_latest(add_offsets_to_txn, 0),
        lambda scene: AddOffsetsToTxnRequest("t", *scene.producer, "another"),
    ),
    Row("TxnOffsetCommit", txn_offset_commit, to_latest(txn_offset_commit, 0), committed),
    Row(
        "EndTxn, a commit",
        end_txn,
        to_latest(end_txn, 0),
        lambda scene: EndTxnRequest("t", *scene.producer, True),
    ),
    Row(
        "EndTxn, an abort",
        end_txn,
        to_latest(end_txn, 0),
        lambda scene: EndTxnRequest("t", *scene.producer, False),
    ),
    Row(
        "InitProducerId",
        init_producer_id,
        to_latest(init_producer_id, 3),
        lambda scene: InitProducerIdRequest("t", 60_000, *scene.producer),
    ),
    Row(
        "InitProducerId that keeps the transaction",
        init_producer_id,
        range(6, 7),
        lambda scene: InitProducerIdRequest("t", 60_000, *scene.producer, keep_prepared_txn=True),
    ),
]
CASES = [
    pytest.param(row, version, id=f"{row.name}, v{version}")
    for row in ROWS
    for version in row.versions
]


@pytest.mark.parametrize(("row", "version"), CASES)
@pytest.mark.parametrize("caller", [BOB, ANONYMOUS], ids=str)
async def test_h49_a_producer_id_of_another_principal_is_refused_and_nothing_changes(
    row: Row, version: int, caller: Principal
) -> None:
    async with scene() as found:
        before = found.state()
        request = row.request(found)
        response = await ask(row.handler, found.services, request, version, principal=caller)
        found.world.settle()
        refused = set(codes(response)) - {ErrorCode.NONE}
        assert refused == {UNKNOWN}
        assert changed(before, found.state()) == []
        (event,) = found.events
        assert (event["owner"], event["principal"]) == ("User:alice", str(caller))


@pytest.mark.parametrize(("row", "version"), CASES)
async def test_h49_its_principal_is_served(row: Row, version: int) -> None:
    async with scene() as found:
        response = await ask(
            row.handler, found.services, row.request(found), version, principal=ALICE
        )
        assert UNKNOWN not in set(codes(response))
        assert found.events == []


async def test_h49_only_the_batch_with_the_id_of_another_principal_is_refused() -> None:
    async with scene() as found:
        own = build_batch(
            [NewRecord(0, None, b"own")], producer_id=7, producer_epoch=0, base_sequence=0
        )
        forged = batch(found, epoch=1)
        data = [PartitionProduceData(1, own), PartitionProduceData(0, forged)]
        request = ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=data)])
        response = await ask(produce, found.services, request, 12, principal=BOB)
        rows = response.responses[0].partition_responses
        assert [row.error_code for row in rows] == [ErrorCode.NONE, UNKNOWN]
        assert str(found.producer[0]) in rows[1].error_message
        assert found.world.partitions[A1].log_end_offset == 1
        assert found.world.partitions[A0].log_end_offset == 1


async def test_h49_a_large_produce_is_checked_too() -> None:
    async with scene() as found:
        # A batch of any other partition is refused, because the partition does not exist.
        data = [PartitionProduceData(index, batch(found, epoch=1)) for index in range(SMALL + 5)]
        request = ProduceRequest(None, -1, 1_000, [TopicProduceData(TOPIC, partition_data=data)])
        before = found.state()
        response = await ask(produce, found.services, request, 12, principal=BOB)
        rows = response.responses[0].partition_responses
        assert {row.error_code for row in rows if row.index in (0, 1)} == {UNKNOWN}
        assert changed(before, found.state()) == []


async def test_h49_without_acks_the_connection_is_closed() -> None:
    async with scene() as found:
        request = produced(found, batch(found, epoch=1), None)
        request.acks = 0
        with pytest.raises(ProtocolError, match="INVALID_PRODUCER_ID_MAPPING"):
            await ask(produce, found.services, request, 13, principal=BOB)
        assert found.world.partitions[A0].log_end_offset == 1


async def test_h49_a_batch_of_an_older_format_is_refused_for_its_format() -> None:
    async with scene() as found:
        records = batch(found, epoch=1)
        records[16] = 1
        response = await ask(
            produce, found.services, produced(found, records, None), 13, principal=BOB
        )
        assert UNKNOWN not in set(codes(response))
        assert found.events == []


@pytest.mark.parametrize("version", range(3, APIS[end_txn.API].latest + 1))
async def test_h49_a_group_commit_of_a_member_of_another_principal_is_refused(
    version: int,
) -> None:
    async with scene() as found:
        members = [EndTxnMember("own", 1, 0), EndTxnMember("t", *found.producer)]
        request = EndTxnRequest("parent", 2, 0, True, transaction_group_id=GROUP, members=members)
        before = found.state()
        response = await ask(end_txn, found.services, request, version, principal=BOB)
        assert (response.error_code, response.refused_member) == (UNKNOWN, "t")
        assert changed(before, found.state()) == []


@pytest.mark.parametrize("version", [4, 5])
async def test_h49_a_broker_asks_for_its_clients(version: int) -> None:
    """The leader of the partition has checked the producer id of its client."""
    async with scene() as found:
        topics = [AddPartitionsToTxnTopic(TOPIC, [1])]
        transaction = AddPartitionsToTxnTransaction("t", *found.producer, False, topics)
        request = AddPartitionsToTxnRequest(transactions=[transaction])
        response = await ask(add_partitions_to_txn, found.services, request, version, principal=BOB)
        assert set(codes(response)) == {ErrorCode.NONE}


RIGHTS: list[tuple[str, tuple[Operation, str], ErrorCode]] = [
    (
        "a batch of the transaction",
        (Operation.WRITE, "t"),
        ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED,
    ),
    (
        "a batch with the next epoch",
        (Operation.WRITE, TOPIC),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ),
    (
        "AddPartitionsToTxn",
        (Operation.WRITE, TOPIC),
        ErrorCode.TOPIC_AUTHORIZATION_FAILED,
    ),
    ("AddOffsetsToTxn", (Operation.READ, "another"), ErrorCode.GROUP_AUTHORIZATION_FAILED),
    ("TxnOffsetCommit", (Operation.READ, INPUT), ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    *(
        (name, (Operation.WRITE, "t"), ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
        for name in ("EndTxn, a commit", "InitProducerId", "AddPartitionsToTxn", "TxnOffsetCommit")
    ),
]


@pytest.mark.parametrize(("name", "right", "code"), RIGHTS)
async def test_h49_rights_are_checked_before_the_producer_id(
    name: str, right: tuple[Operation, str], code: ErrorCode
) -> None:
    (row,) = (row for row in ROWS if row.name == name)
    async with scene(Denying(right)) as found:
        request = row.request(found)
        response = await ask(row.handler, found.services, request, row.versions[-1], principal=BOB)
        assert set(codes(response)) - {ErrorCode.NONE} == {code}
