"""The broker understands the load generator's requests, and the generator finds the error codes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from benchmarks.requests import (
    PRODUCE_VERSION,
    Entry,
    a_batch,
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


def entries() -> list[Entry]:
    return [
        produce("t", 2, a_batch(3, 100)),
        fetch("t", 2, 1000),
        *transaction("t", 2, PRODUCER, 100),
        *transaction_v2("t", 2, PRODUCER, 100),
    ]


@pytest.mark.parametrize("entry", entries())
def test_a_request_can_be_decoded(entry: Entry) -> None:
    header, position = read_request_header(entry.request)
    api = APIS[header.api_key]
    body = entry.request[position:]
    request = decode(api.request, header.api_version, memoryview(body))
    assert encode(request, header.api_version) == body


def test_the_error_code_of_an_answer_stands_where_the_entry_says() -> None:
    entry = produce("some-topic", 5, a_batch(1, 10))
    answer = ProduceResponse(
        [TopicProduceResponse("some-topic", partition_responses=[PartitionProduceResponse(5, 87)])]
    )
    head = response_header(0, PRODUCE_VERSION, 0)
    answered = b"".join(frame([head, encode(answer, PRODUCE_VERSION)]))
    assert struct.unpack_from(">h", answered, entry.error_at) == (87,)


def test_only_the_batch_of_a_producer_with_an_id_is_patched() -> None:
    assert produce("t", 0, a_batch(1, 10)).batch_at == 0
    _, written, _ = transaction("t", 0, PRODUCER, 10)
    header = read_header(written.request, written.batch_at)
    assert (header.producer_id, header.producer_epoch, header.base_sequence) == (7, 3, 0)
    assert header.is_transactional
    assert header.crc == compute_crc(written.request, written.batch_at, header.size)


def test_the_producer_stands_where_the_entry_says() -> None:
    """So does the next epoch in the response to EndTxn."""
    identity = struct.pack(">qh", PRODUCER.producer_id, PRODUCER.producer_epoch)
    written, ended = transaction_v2("t", 0, PRODUCER, 10)
    for entry in (written, ended):
        assert entry.request[entry.identity_at :][: len(identity)] == identity
    answer = encode(EndTxnResponse(producer_id=77, producer_epoch=5), 5)
    answered = b"".join(frame([response_header(26, 5, 0), answer]))
    assert struct.unpack_from(">qh", answered, ended.renewed_at) == (77, 5)


def test_a_file_holds_each_request_behind_its_positions(tmp_path: Path) -> None:
    entry = Entry(b"request", 17, 4)
    data = write_entries(tmp_path / "file", [entry, entry]).read_bytes()
    assert data == struct.pack(">IIIII", 17, 4, 0, 0, 7) + b"request" + data[: len(data) // 2]
