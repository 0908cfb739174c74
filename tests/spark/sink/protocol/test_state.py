"""The durable state of a sink, as the offset and metadata of a group."""

from __future__ import annotations

import json
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.sink.protocol.state import (
    MAX_METADATA_BYTES,
    SinkState,
    StateUnreadable,
    decode,
    encode,
    kept,
)
from oncelog_client.values import OffsetAndMetadata

ENDS = st.none() | st.dictionaries(
    st.text("abc.", min_size=1), st.dictionaries(st.integers(0, 99).map(str), st.integers(0, 9**15))
).map(lambda found: json.dumps(found, separators=(",", ":")))


@given(
    st.builds(
        SinkState,
        st.none() | st.text(max_size=100),
        st.integers(0, 2**31 - 1),
        st.integers(0, 2**63 - 1),
        st.integers(0, 2**63 - 1),
        ENDS,
        st.booleans(),
        st.booleans(),
    )
)
def test_a_committed_state_is_read_back(state: SinkState) -> None:
    stored = encode(state)
    assert len(stored.metadata.encode()) <= MAX_METADATA_BYTES
    assert decode(stored, "s") == kept(state)
    assert kept(state) in (state, replace(state, source_end=None, is_end_too_long=True))


def ended(partitions: int) -> str:
    """Return random end offsets of a source, because they compress badly."""
    offsets = Random(partitions)
    of_topic = {str(number): offsets.randrange(10**9, 10**10) for number in range(partitions)}
    return json.dumps({"purchases": of_topic}, separators=(",", ":"))


def test_a_source_end_that_fits_is_stored_uncompressed_for_older_releases() -> None:
    stored = encode(SinkState("q", 3, 8, 5, ended(200)))
    assert json.loads(stored.metadata)["sourceEnd"] == json.loads(ended(200))
    assert json.loads(stored.metadata).keys() == {"queryId", "gen", "rows", "sourceEnd"}


def test_the_source_end_of_500_partitions_fits() -> None:
    query_id = "5e0fb5a7-6e0a-43b7-b1c7-5a5e4b0c6f1d"
    state = SinkState(query_id, 2**31 - 1, 2**40, 2**40, ended(500))
    assert decode(encode(state), "s") == state


def test_a_flag_replaces_a_source_end_that_is_too_long() -> None:
    state = SinkState("q", 3, 8, 5, ended(1000))
    found = decode(encode(state), "s")
    assert found == SinkState("q", 3, 8, 5, is_end_too_long=True) == kept(state)
    # The next generation's Open writes the flag again.
    assert decode(encode(replace(found, generation=4)), "s").is_end_too_long
    with pytest.raises(ValueError, match="too long"):
        encode(SinkState("q" * 5000, 3, 8))


def test_an_operator_may_set_the_next_batch_with_a_tool_that_writes_no_metadata() -> None:
    assert decode(OffsetAndMetadata(7), "s") == SinkState(None, 0, 7)


def test_the_state_of_an_older_release_is_read() -> None:
    older = '{"queryId":"q","gen":3,"rows":5,"sourceEnd":{"a":{"0":7}}}'
    assert decode(OffsetAndMetadata(8, older), "s") == SinkState("q", 3, 8, 5, '{"a":{"0":7}}')
    older = '{"queryId":"q","gen":3,"rows":5}'
    assert decode(OffsetAndMetadata(8, older), "s") == SinkState("q", 3, 8, 5)


PACKED = '{"queryId":"q","gen":3,"rows":5,"sourceEndPacked":%s}'


@pytest.mark.parametrize("packed", ["7", '"a b"', '"abcde"', "{}"])
def test_an_invalid_compressed_source_end_is_an_error(packed: str) -> None:
    with pytest.raises(StateUnreadable, match="group orders"):
        decode(OffsetAndMetadata(7, PACKED % packed), "orders")


@pytest.mark.parametrize("metadata", ["batch 0", "[]", "{}", '{"queryId":"q","gen":"x","rows":0}'])
def test_the_error_for_metadata_of_another_consumer_names_the_group(metadata: str) -> None:
    with pytest.raises(StateUnreadable, match="group orders for __oncelog_sink-0"):
        decode(OffsetAndMetadata(7, metadata), "orders")
