"""The rings of requests. No record bytes occur twice, and each partition has its share."""

from __future__ import annotations

import pytest

from benchmarks.requests import Entry, transaction, transaction_v2
from benchmarks.rings import (
    SMALL,
    Content,
    Transaction,
    groups,
    producer_ring,
    ring,
    transaction_ring,
)
from oncelog_protocol.codecs import decode
from oncelog_protocol.headers import read_request_header
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.records.batch import compute_crc, read_header
from tests.harness.writing import Identity

PRODUCER = Identity(7, 3, "producer")
PRODUCE = 0


def written(entries: list[Entry]) -> list[dict[int, bytes]]:
    """Return the batches of each Produce request by partition."""
    found = []
    for entry in entries:
        header, position = read_request_header(entry.request)
        if header.api_key == PRODUCE:
            body = memoryview(entry.request)[position:]
            request: ProduceRequest = decode(ProduceRequest, header.api_version, body)
            (topic,) = request.topic_data
            found.append({part.index: bytes(part.records or b"") for part in topic.partition_data})
    return found


@pytest.mark.parametrize("content", [SMALL, Content(3, 50)])
@pytest.mark.parametrize("per_request", [1, 4])
def test_no_two_batches_of_a_ring_have_the_same_bytes(content: Content, per_request: int) -> None:
    requests = written(ring("t", 8, per_request, 3, content))
    assert [list(request) for request in requests] == [list(g) for g in groups(8, per_request)] * 3
    batches = [batch for request in requests for batch in request.values()]
    assert len({batch[-content.value_bytes :] for batch in batches}) == len(batches) == 24
    for batch in batches:
        header = read_header(batch, 0)
        assert header.last_offset_delta + 1 == content.records
        assert header.crc == compute_crc(batch, 0, header.size)


def test_groups_of_unequal_size_are_refused() -> None:
    with pytest.raises(ValueError, match="7 partitions"):
        groups(7, 2)


def test_a_producer_writes_only_to_its_partitions() -> None:
    entries = producer_ring("t", range(2, 4), 5, PRODUCER, SMALL)
    requests = written(entries)
    assert [list(request) for request in requests] == [[2, 3]] * 5
    assert len({batch for request in requests for batch in request.values()}) == 10
    assert all(len(entry.batches_at) == 2 for entry in entries)


@pytest.mark.parametrize(("kind", "steps"), [(transaction, 3), (transaction_v2, 2)])
def test_each_transaction_of_a_ring_has_its_own_bytes(kind: Transaction, steps: int) -> None:
    entries = transaction_ring(kind, "t", range(2), 4, PRODUCER, SMALL)
    assert len(entries) == 4 * steps
    assert len({batch for request in written(entries) for batch in request.values()}) == 8
