"""Who may write to a sink, and what of it is done."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.admission import admit
from oncelog_client.spark.sink.refusals import Reason, Refusal
from oncelog_client.spark.sink.state import SinkState

STORED = SinkState("q", 4, 8, 5, '{"purchases":{"0":50}}')


@pytest.mark.parametrize(
    ("stored", "query_id", "batch_id", "adopts", "done"),
    [
        (None, "q", 3, False, 0),
        (STORED, "q", 3, False, 8),
        # It is not known yet who asks.
        (STORED, None, None, False, 8),
        # An operator has set it, or nobody has committed yet.
        (SinkState(None, 4, 8), "q", 3, False, 8),
        # Batch numbers of two queries are never compared.
        (STORED, "other", None, True, 0),
        (STORED, "other", 0, True, 0),
    ],
)
def test_batches_below_are_done(
    stored: SinkState | None, query_id: str | None, batch_id: int | None, adopts: bool, done: int
) -> None:
    assert admit("orders", stored, query_id, batch_id, adopts) == done


@pytest.mark.parametrize(
    ("batch_id", "adopts", "advice"),
    [
        (None, False, "onNewCheckpoint=adopt"),
        (0, False, "startingOffsets=sink:orders"),
        # It is not new: it has lost the sink to the other one.
        (5, False, "another sinkId"),
        (5, True, "another sinkId"),
    ],
)
def test_another_query_is_told_what_was_committed_and_what_to_do(
    batch_id: int | None, adopts: bool, advice: str
) -> None:
    refusal = admit("orders", STORED, "other", batch_id, adopts)
    assert isinstance(refusal, Refusal)
    assert refusal.reason is Reason.NEW_CHECKPOINT
    for said in ("orders", "query q", "other", "batch 7", '{"purchases":{"0":50}}', advice):
        assert said in refusal.message
