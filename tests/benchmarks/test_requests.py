"""The broker decodes the load generator's requests. An `Entry` is a request with the positions of
the fields that the generator reads or changes: error codes, batches and producers' identities."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.batches import NO_IDENTITY, a_batch
from benchmarks.requests import (
    PRODUCE_VERSION,
    Entry,
    api_versions,
    fetch,
    produce,
    transaction,
    transaction_v2,
    write_entries,
)
from oncelog_protocol.apis import APIS
from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.frames import frame
from oncelog_protocol.headers import read_request_header, response_header
from oncelog_protocol.messages.end_txn import EndTxnResponse
from oncelog_protocol.messages.produce import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog_protocol.records.batch import compute_crc, read_header
from tests.harness.writing import Identity

PRODUCER = Identity(7, 3, "producer")


def batches(producer: Identity) -> dict[int, bytearray]:
    return {partition: a_batch(1, 100, producer) for partition in (2, 5)}


def entries() -> list[Entry]:
    return [
        api_versions(),
        produce("t", {2: a_batch(3, 100)}),
        fetch("t", 2, 1000),
        produce("t", batches(NO_IDENTITY)),
        *transaction("t", batches(PRODUCER), PRODUCER),
        *transaction_v2("t", batches(PRODUCER), PRODUCER),
    ]


@pytest.mark.parametrize("entry", entries())
def test_a_request_can_be_decoded(entry: Entry) -> None:
    header, position = read_request_header(entry.request)
    api = APIS[header.api_key]
    body = entry.request[position:]
    request = decode(api.request, header.api_version, memoryview(body))
    assert encode(request, header.api_version) == body


@pytest.mark.parametrize("errors", [(87, 0), (0, 45)])
def test_an_entry_has_the_positions_of_the_error_codes_in_its_response(
    errors: tuple[int, int],
) -> None:
    entry = produce("some-topic", batches(NO_IDENTITY))
    partitions = [
        PartitionProduceResponse(at, error) for at, error in zip((2, 5), errors, strict=True)
    ]
    response = ProduceResponse([TopicProduceResponse("some-topic", partition_responses=partitions)])
    head = response_header(0, PRODUCE_VERSION, 0)
    sent = b"".join(frame([head, encode(response, PRODUCE_VERSION)]))
    assert tuple(struct.unpack_from(">h", sent, at)[0] for at in entry.errors_at) == errors


def test_only_batches_of_a_producer_with_an_id_have_a_position() -> None:
    assert produce("t", {0: a_batch(1, 10)}).batches_at == ()
    _, written, _ = transaction("t", batches(PRODUCER), PRODUCER)
    assert len(written.batches_at) == 2
    for position in written.batches_at:
        header = read_header(written.request, position)
        assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
        assert header.is_transactional
        assert header.crc == compute_crc(written.request, position, header.size)


def test_an_entry_has_the_positions_of_both_identities() -> None:
    """The entry of an EndTxn has the position of the identity in the request, and the position of
    the next identity in the response."""
    identity = struct.pack(">qh", PRODUCER.producer_id, PRODUCER.producer_epoch)
    _, ended = transaction_v2("t", batches(PRODUCER), PRODUCER)
    assert ended.request[ended.identity_at :][: len(identity)] == identity
    response = encode(EndTxnResponse(producer_id=77, producer_epoch=5), 5)
    sent = b"".join(frame([response_header(26, 5, 0), response]))
    assert struct.unpack_from(">qh", sent, ended.renewed_at) == (77, 5)


def test_a_file_holds_each_request_after_its_positions(tmp_path: Path) -> None:
    entry = Entry(b"request", (17, 18), (4,), 5, 6)
    data = write_entries(tmp_path / "file", [entry, entry]).read_bytes()
    assert (
        data
        == struct.pack(">IIIIIIII", 5, 6, 2, 1, 7, 17, 18, 4) + b"request" + data[: len(data) // 2]
    )
