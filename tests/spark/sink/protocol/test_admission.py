"""Admission decides if a query may write to a sink, and how many batches are done."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol.admission import admit
from oncelog_client.spark.sink.protocol.refusals import Reason, Refusal
from oncelog_client.spark.sink.protocol.state import SinkState

STORED = SinkState("q", 4, 8, 5, '{"purchases":{"0":50}}')


@pytest.mark.parametrize(
    ("stored", "query_id", "batch_id", "adopts", "done"),
    [
        (None, "q", 3, False, 0),
        (STORED, "q", 8, False, 8),
        # Spark repeats the last batch if Spark's commit log lacks the batch.
        (STORED, "q", 7, False, 8),
        # The first batch of a query that has taken over the sink (`adopts`).
        (SinkState("q", 4, 0), "q", 0, False, 0),
        # The caller does not know its query yet.
        (STORED, None, None, False, 8),
        # The state names no query: an operator has set the offset, or no batch is committed yet.
        (SinkState(None, 4, 8), "q", 7, False, 8),
        # Batch numbers of two queries are never compared.
        (STORED, "other", None, True, 0),
        (STORED, "other", 0, True, 0),
    ],
)
def test_admission_returns_the_number_of_done_batches(
    stored: SinkState | None, query_id: str | None, batch_id: int | None, adopts: bool, done: int
) -> None:
    assert admit("orders", stored, query_id, batch_id, adopts) == done


@pytest.mark.parametrize("batch_id", [0, 6])
@pytest.mark.parametrize("adopts", [False, True])
def test_a_stream_is_refused_at_a_batch_before_the_last(batch_id: int, adopts: bool) -> None:
    """The query was started from an old copy of its checkpoint. It plans the batch again, and may
    choose other end offsets than the committed batch of the same number."""
    refusal = admit("orders", STORED, "q", batch_id, adopts)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.OLD_CHECKPOINT
    ended, asked = '{"purchases":{"0":50}}', f"planned batch {batch_id} again:"
    advice = "startingOffsets=sink:orders"
    for said in ("sink orders", "query q", "committed batch 7", ended, asked, advice):
        assert said in refusal.message
    # With `is_version` the number is a txnVersion of a batch write. Any version may be repeated.
    assert admit("orders", STORED, "q", batch_id, adopts, is_version=True) == 8


@pytest.mark.parametrize(
    ("batch_id", "adopts", "advice"),
    [
        (None, False, "onNewCheckpoint=adopt"),
        (0, False, "startingOffsets=sink:orders"),
        # Batch 5 is not the query's first: another query has taken over the sink.
        (5, False, "another sinkId"),
        (5, True, "another sinkId"),
    ],
)
def test_the_error_of_another_query_says_what_was_committed_and_what_to_do(
    batch_id: int | None, adopts: bool, advice: str
) -> None:
    refusal = admit("orders", STORED, "other", batch_id, adopts)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.NEW_CHECKPOINT
    for said in ("orders", "query q", "other", "batch 7", '{"purchases":{"0":50}}', advice):
        assert said in refusal.message
