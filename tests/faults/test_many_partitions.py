"""A client that creates topics and partitions by the hundred thousand (scenario H64). The broker
refuses those above a limit with a clear error, serves other clients meanwhile, and can start
again."""

from __future__ import annotations

import select
import struct
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from statistics import median

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.unsigned_varint import write_uvarint
from tests.faults.holding import cpu_limit_ms, cpu_ms, held_ms
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, merged
from tests.harness.writing import batch, end_transaction, new_identity, produce, records

LIMIT = 500
EACH = 125
HUNDRED_THOUSAND = 100_000


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    broker = Oncelog(tmp_path, merged(QUICK, {"oncelog.max.partitions": str(LIMIT)}))
    broker.start()
    yield broker
    events(broker)
    broker.kill()


def making(*topics: tuple[str, int]) -> CreateTopicsRequest:
    wanted = [CreatableTopic(name, partitions, 1) for name, partitions in topics]
    return CreateTopicsRequest(wanted, 60_000)


def counted(wire: Wire) -> int:
    """Return the number of partitions of all topics, except internal ones."""
    topics = wire.call(MetadataRequest(None), 12).topics
    return sum(len(topic.partitions) for topic in topics if not topic.is_internal)


def test_h64_a_request_for_a_hundred_thousand_partitions_creates_none(
    broker: Oncelog,
) -> None:
    names = [f"n{number}" for number in range(1_000)]
    with Wire(broker.address) as wire:
        for request in (
            making(("one", HUNDRED_THOUSAND)),
            making(*((name, 100) for name in names)),
            making(*((name, 10_000) for name in names[:10])),
        ):
            used = cpu_ms(broker)
            response = wire.call(request)
            assert {topic.error_code for topic in response.topics} == {ErrorCode.POLICY_VIOLATION}
            assert cpu_ms(broker) - used < cpu_limit_ms()
        create(wire, "t")
        more = CreatePartitionsRequest([CreatePartitionsTopic("t", HUNDRED_THOUSAND)], 60_000)
        assert wire.call(more).results[0].error_code == ErrorCode.POLICY_VIOLATION
        assert counted(wire) == 1


def test_h64_a_request_for_a_hundred_thousand_topics_closes_only_its_connection(
    broker: Oncelog,
) -> None:
    # CreateTopics v5. A topic has a name, partitions and replicas, but no assignments and no
    # settings.
    topic = struct.Struct(">B6sihBBB")
    topics = b"".join(
        topic.pack(7, b"%06d" % number, 1, 1, 1, 1, 0) for number in range(HUNDRED_THOUSAND)
    )
    count = write_uvarint(HUNDRED_THOUSAND + 1)
    body = struct.pack(">hhihB", 19, 5, 1, -1, 0) + count + topics + bytes(6)
    with Wire(broker.address) as bystander, Wire(broker.address) as wire:
        used = cpu_ms(broker)
        with suppress(ConnectionError):
            wire.socket.sendall(struct.pack(">i", len(body)) + body)
        assert wire.is_closed()
        assert cpu_ms(broker) - used < cpu_limit_ms()
        assert counted(bystander) == 0


def test_h64_repeated_requests_create_no_more_partitions_than_the_limit(
    broker: Oncelog,
) -> None:
    """The client requests a hundred thousand partitions in all, and gets no more than LIMIT.
    Created partitions survive a crash and can be deleted."""
    with Wire(broker.address) as wire, Wire(broker.address) as bystander:
        create(bystander, "t")
        codes: list[int] = []
        held: list[float] = []
        for number in range(10):
            names = [f"many-{number}-{topic}" for topic in range(HUNDRED_THOUSAND // EACH // 10)]
            wire.send(making(*((name, EACH) for name in names)))
            while not select.select([wire.socket], [], [], 0)[0]:
                held.append(held_ms(broker, bystander))
            codes += [topic.error_code for topic in wire.answer().topics]
        assert codes[:3] == [ErrorCode.NONE] * 3
        assert set(codes[3:]) == {ErrorCode.POLICY_VIOLATION}
        # If this test has to wait for a processor, a measurement covers several turns of the
        # broker's loop. Therefore only the median must be short.
        assert median(held) < cpu_limit_ms() / 4
        assert automatic(wire, "automatic") == ErrorCode.NONE
        is_coordinated(bystander)
    broker.kill()
    broker.start()
    with Wire(broker.address) as wire:
        assert counted(wire) == 3 * EACH + 2
        create(wire, "full", partitions=EACH - 2)
        assert automatic(wire, "late") == ErrorCode.POLICY_VIOLATION
        assert produce(wire, "many-0-2", build_batch(records()), partition=EACH - 1).error_code == 0
        gone = DeleteTopicsRequest([DeleteTopicState("many-0-0")], timeout_ms=60_000)
        assert wire.call(gone).responses[0].error_code == ErrorCode.NONE
        assert automatic(wire, "late") == ErrorCode.NONE
        is_coordinated(wire)


def automatic(wire: Wire, name: str) -> int:
    """Send a Metadata request that creates the topic automatically. Return the error code of the
    topic."""
    wanted = MetadataRequest([MetadataRequestTopic(name=name)], allow_auto_topic_creation=True)
    return int(wire.call(wanted, 12).topics[0].error_code)


def is_coordinated(wire: Wire) -> None:
    """Check that a transaction commits. It needs internal topics, which do not count against the
    limit."""
    producer = new_identity(wire, "x")
    assert produce(wire, "t", batch(producer, 0), producer=producer).error_code == ErrorCode.NONE
    assert end_transaction(wire, producer, commit=True).error_code == ErrorCode.NONE
