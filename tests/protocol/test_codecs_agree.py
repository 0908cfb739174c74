"""Three implementations read and write every message of every version in the same way: the
generated codecs, the slower codecs of `constructs.py`, and the library kio."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog_protocol.codecs import decode, encode
from oncelog_protocol.messages.list_groups import (
    ListedGroup,
    ListGroupsRequest,
    ListGroupsResponse,
)
from oncelog_protocol.types import MAX_STRING
from tests.protocol.constructs import construct_of
from tests.protocol.drawing import CASES, case_id, messages, sample
from tests.protocol.kio_oracle import kio_class, kio_read, kio_write, same, without_ours

# Versions that kio 0.6.5 does not have yet. kio must agree on all other versions.
UNKNOWN_TO_KIO = {
    ("ApiVersionsRequest", 5),
    ("ApiVersionsResponse", 5),
    ("CoordinatorCallRequest", 0),
    ("CoordinatorCallResponse", 0),
    ("DeleteGroupsRequest", 3),
    ("DeleteGroupsResponse", 3),
    ("TxnOffsetCommitRequest", 6),
    ("TxnOffsetCommitResponse", 6),
}


def agree(message: Any, version: int) -> None:
    cls = type(message)
    raw = encode(message, version)
    oracle = construct_of(cls, version)
    assert oracle.build(message) == raw
    assert oracle.parse(raw) == message
    assert decode(cls, version, raw) == message
    kio_cls = kio_class(cls, version)
    if kio_cls is not None:
        message = without_ours(message)
        raw = encode(message, version)
        entity = kio_read(kio_cls, raw)
        assert same(message, entity, version)
        assert kio_write(entity) == raw


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
@settings(max_examples=12, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_codec_construct_and_kio_agree(cls: type[Any], version: int, data: st.DataObject) -> None:
    agree(data.draw(messages(cls, version)), version)


@pytest.mark.parametrize(("cls", "version"), CASES, ids=case_id)
def test_they_agree_on_a_message_of_defaults_and_on_a_full_one(
    cls: type[Any], version: int
) -> None:
    agree(cls(), version)
    agree(sample(cls, version), version)


@pytest.mark.parametrize("size", [126, 127, 128, 16_382, 16_383, 16_384, MAX_STRING])
def test_they_agree_where_a_length_takes_another_byte(size: int) -> None:
    agree(ListGroupsRequest(states_filter=["s" * size]), 4)
    agree(ListGroupsRequest(states_filter=["s"] * size), 4)
    agree(ListGroupsResponse(groups=[ListedGroup(group_id="g" * size)]), 3)
    agree(ListGroupsResponse(groups=[ListedGroup(group_id="g" * size)]), 4)


# Only v4 has the large counts, because thousands of structs take seconds. Both versions encode a
# count in the same way.
@pytest.mark.parametrize(
    ("version", "count"),
    [
        (3, 126),
        (3, 127),
        (3, 128),
        (4, 126),
        (4, 127),
        (4, 128),
        (4, 16_382),
        (4, 16_383),
        (4, 16_384),
    ],
)
def test_they_agree_where_a_count_of_structs_takes_another_byte(version: int, count: int) -> None:
    agree(ListGroupsResponse(groups=[ListedGroup() for _ in range(count)]), version)


def test_kio_knows_all_but_the_newest_versions() -> None:
    unknown = {(cls.__name__, v) for cls, v in CASES if kio_class(cls, v) is None}
    assert unknown == UNKNOWN_TO_KIO
