"""The ledger of committed batches finds each difference of a log."""

from __future__ import annotations

import pytest

from tests.simulation.cluster.batches import BatchId
from tests.simulation.cluster.committed import Committed

LOG = [BatchId(0, 1, 0, 11), BatchId(2, 2, 0, 22), BatchId(3, 5, 1, 33)]


@pytest.fixture
def committed() -> Committed:
    """The first two batches are committed."""
    ledger = Committed()
    assert ledger.extend("a-0", LOG, 0, 3) is None
    return ledger


def test_a_log_with_all_committed_batches_lacks_nothing(committed: Committed) -> None:
    assert committed.end("a-0") == 3
    assert committed.missing("a-0", LOG) is None
    assert committed.missing("a-0", LOG[:2]) is None
    # Batches that are not committed may differ.
    assert committed.missing("a-0", [*LOG[:2], BatchId(3, 3, 2, 44)]) is None


@pytest.mark.parametrize(
    "log",
    [
        [],
        LOG[:1],
        LOG[1:],
        [LOG[0], BatchId(2, 2, 0, 23)],
        [LOG[0], BatchId(2, 2, 1, 22)],
        [LOG[0], BatchId(2, 3, 0, 22)],
    ],
    ids=["empty", "cut", "no start", "other bytes", "other epoch", "other end"],
)
def test_a_log_without_a_committed_batch_is_found(committed: Committed, log: list[BatchId]) -> None:
    assert committed.missing("a-0", log) is not None
    assert committed.extend("a-0", log, 0, 3) is not None


def test_only_the_named_offsets_are_compared(committed: Committed) -> None:
    changed = [BatchId(0, 1, 0, 99), LOG[1]]
    assert committed.missing("a-0", changed, 2, 3) is None
    assert committed.missing("a-0", LOG[:1], 0, 2) is None


def test_a_high_watermark_above_the_end_of_the_log_is_found(committed: Committed) -> None:
    assert committed.extend("a-0", LOG, 3, 9) is not None
