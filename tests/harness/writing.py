"""A producer of raw requests on a `Wire`, a broker connection. The test chooses every field."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.end_txn import EndTxnRequest, EndTxnResponse
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.init_producer_id import (
    InitProducerIdRequest,
    InitProducerIdResponse,
)
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.produce import (
    PartitionProduceData,
    PartitionProduceResponse,
    ProduceRequest,
    TopicProduceData,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_protocol.records.record import NewRecord
from tests.harness.waiting import DEADLINE_S, wait_until

# The last version of Produce with topic names. It is also the first version that adds its
# partitions to the transaction implicitly (KIP-890).
BY_NAME = 12


@dataclass(frozen=True, slots=True)
class Identity:
    """A producer's identity, from InitProducerId or chosen by the test."""

    producer_id: int
    producer_epoch: int
    transactional_id: str | None = None

    def aged(self, epochs: int) -> Identity:
        """Return the identity with an epoch that is higher by `epochs`."""
        return replace(self, producer_epoch=self.producer_epoch + epochs)


def records(count: int = 1, value: bytes = b"v") -> list[NewRecord]:
    """Return `count` records without keys and with the current time, because older records would
    make the segment roll."""
    now_ms = int(time.time() * 1000)
    return [NewRecord(now_ms, None, value) for _ in range(count)]


def batch(producer: Identity, sequence: int, count: int = 1, value: bytes = b"v") -> bytearray:
    """Return a batch of this producer that begins at this sequence number."""
    return build_batch(
        records(count, value),
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        base_sequence=sequence,
        is_transactional=producer.transactional_id is not None,
    )


def produce(
    wire: Wire,
    topic: str,
    data: bytes | bytearray,
    *,
    producer: Identity | None = None,
    partition: int = 0,
    acks: int = -1,
    version: int = BY_NAME,
) -> PartitionProduceResponse:
    """Send one batch for one partition, and return the broker's response."""
    request = ProduceRequest(
        transactional_id=None if producer is None else producer.transactional_id,
        acks=acks,
        timeout_ms=10_000,
        topic_data=[
            TopicProduceData(name=topic, partition_data=[PartitionProduceData(partition, data)])
        ],
    )
    response: PartitionProduceResponse = (
        wire.call(request, version).responses[0].partition_responses[0]
    )
    return response


def new_identity(
    wire: Wire,
    transactional_id: str | None = None,
    *,
    timeout_ms: int = 60_000,
    version: int = 5,
    current: Identity | None = None,
) -> Identity:
    """Send InitProducerId until the coordinator is available and not busy. Return the producer's
    new identity."""
    responses: list[InitProducerIdResponse] = []

    def answered() -> bool:
        responses.append(
            init_producer_id(
                wire, transactional_id, timeout_ms=timeout_ms, version=version, current=current
            )
        )
        return responses[-1].error_code not in BUSY

    find_coordinator(wire, transactional_id)
    wait_until(answered, "a producer id", DEADLINE_S)
    assert responses[-1].error_code == ErrorCode.NONE, ErrorCode(responses[-1].error_code)
    return Identity(responses[-1].producer_id, responses[-1].producer_epoch, transactional_id)


BUSY = {
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.NOT_COORDINATOR,
}


def init_producer_id(
    wire: Wire,
    transactional_id: str | None,
    *,
    timeout_ms: int = 60_000,
    version: int = 5,
    current: Identity | None = None,
) -> InitProducerIdResponse:
    """Send one InitProducerId, and return its response."""
    request = InitProducerIdRequest(
        transactional_id=transactional_id, transaction_timeout_ms=timeout_ms
    )
    if current is not None:
        request.producer_id = current.producer_id
        request.producer_epoch = current.producer_epoch
    response: InitProducerIdResponse = wire.call(request, version)
    return response


def find_coordinator(wire: Wire, key: str | None, key_type: int = 1) -> None:
    """Send FindCoordinator until the coordinator of a transactional id (1) or a group (0) is
    known."""
    if key is None:
        return
    request = FindCoordinatorRequest(key_type=key_type, coordinator_keys=[key])
    wait_until(
        lambda: wire.call(request, 4).coordinators[0].error_code == ErrorCode.NONE,
        f"the coordinator of {key}",
    )


def end_transaction(
    wire: Wire, producer: Identity, *, commit: bool, version: int = 5
) -> EndTxnResponse:
    """Send EndTxn until the coordinator is available and not busy. Return the response, which may
    have an error code."""
    responses: list[EndTxnResponse] = []
    request = EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )

    def answered() -> bool:
        responses.append(wire.call(request, version))
        return responses[-1].error_code not in BUSY

    wait_until(answered, "a response to EndTxn")
    return responses[-1]


def topic_id(wire: Wire, topic: str) -> bytes:
    """Return the 16 bytes of a topic's id."""
    response = wire.call(MetadataRequest(topics=[MetadataRequestTopic(name=topic)]), 12)
    found: bytes = response.topics[0].topic_id
    return found
