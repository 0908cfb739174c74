"""A row encoder packs the same bytes as the encoder of the row's object, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.codecs import decode, encode, row_encoder, sliced_encoder
from oncelog_protocol.messages.produce import (
    BatchIndexAndErrorMessage,
    LeaderIdAndEpoch,
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from oncelog_protocol.schema import schema_of

VERSIONS = list(schema_of(ProduceResponse).versions)
PLAIN = [(0, 0, 17, -1, 3), (2**31 - 1, 0, 2**62, 1_700_000_000_000, 2**62)]
REFUSED = PartitionProduceResponse(
    7, 87, -1, -1, 5, [BatchIndexAndErrorMessage(1, "no key")], "refused", LeaderIdAndEpoch(2, 3)
)


def response(rows: list[Any]) -> ProduceResponse:
    return ProduceResponse([TopicProduceResponse("topic", bytes(16), rows)])


@pytest.mark.parametrize("version", VERSIONS)
def test_rows_and_objects_give_the_same_bytes(version: int) -> None:
    row = row_encoder(PartitionProduceResponse, version)
    objects: list[Any] = [REFUSED, *(PartitionProduceResponse(*fields) for fields in PLAIN)]
    rows: list[Any] = [REFUSED, *(row(*fields) for fields in PLAIN)]
    expected = encode(response(objects), version)
    assert encode(response(rows), version) == expected
    parts: list[bytes] = []
    for _ in sliced_encoder(ProduceResponse, version)(response(rows), parts.append):
        pass
    assert b"".join(parts) == expected
    decoded = decode(ProduceResponse, version, expected).responses[0].partition_responses
    assert [found.base_offset for found in decoded] == [-1, 17, 2**62]


def test_an_array_that_takes_no_rows_refuses_bytes() -> None:
    with pytest.raises(AttributeError):
        encode(ProduceResponse([b"row"]), 9)  # type: ignore[list-item]
