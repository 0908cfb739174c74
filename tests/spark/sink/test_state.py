"""What is durable of a sink, as it stands in the group's offset."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_client.spark.sink.state import (
    MAX_METADATA_BYTES,
    SinkState,
    StateUnreadable,
    decode,
    encode,
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
    )
)
def test_what_was_committed_is_read_again(state: SinkState) -> None:
    stored = encode(state)
    assert len(stored.metadata.encode()) <= MAX_METADATA_BYTES
    assert decode(stored, "s") in (state, SinkState(*_without_end(state)))


def _without_end(state: SinkState) -> tuple[str | None, int, int, int]:
    return state.query_id, state.generation, state.offset, state.rows


def test_sources_end_that_is_too_long_is_left_out() -> None:
    end = json.dumps({"topic": {str(number): 10**12 for number in range(400)}})
    state = SinkState("q", 3, 8, 5, end)
    assert decode(encode(state), "s") == SinkState("q", 3, 8, 5)
    with pytest.raises(ValueError, match="too long"):
        encode(SinkState("q" * 5000, 3, 8))


def test_an_operator_may_set_the_next_batch_with_a_tool_that_writes_no_metadata() -> None:
    assert decode(OffsetAndMetadata(7), "s") == SinkState(None, 0, 7)


@pytest.mark.parametrize("metadata", ["batch 0", "[]", "{}", '{"queryId":"q","gen":"x","rows":0}'])
def test_metadata_of_somebody_else_is_an_error_that_names_the_group(metadata: str) -> None:
    with pytest.raises(StateUnreadable, match="group orders for __oncelog_sink-0"):
        decode(OffsetAndMetadata(7, metadata), "orders")
