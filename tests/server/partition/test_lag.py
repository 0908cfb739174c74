"""The lag of a group counts each record once: readable, or held back by an open transaction."""

from __future__ import annotations

import pytest

from oncelog_server.partition.lag import Lag, count_lag
from oncelog_server.slices import at_its_end
from tests.server.log.driver import NOW_MS, batch
from tests.server.partition.partitions import mark, partition, send


@pytest.mark.parametrize(
    ("committed_offset", "lag"),
    [
        (0, Lag(4, 5)),
        (3, Lag(1, 5)),
        (4, Lag(0, 5)),
        # A group of read_uncommitted readers may commit an offset after the last stable offset.
        (6, Lag(0, 3)),
        (9, Lag(0, 0)),
    ],
)
def test_each_record_counts_once(committed_offset: int, lag: Lag) -> None:
    found = partition()
    found.append(batch(4), now_ms=NOW_MS)
    send(found, 7, 0, count=2)
    found.append(batch(3), now_ms=NOW_MS)
    assert (found.last_stable_offset, found.high_watermark) == (4, 9)
    assert at_its_end(count_lag(found, committed_offset)) == lag


def test_records_of_an_aborted_transaction_do_not_count_as_lag() -> None:
    found = partition()
    send(found, 7, 0, count=2)
    send(found, 8, 0, count=3)
    mark(found, 8, committed=False)
    assert at_its_end(count_lag(found, 0)) == Lag(0, 2)
    mark(found, 7, committed=False)
    assert at_its_end(count_lag(found, 0)) == Lag(0, 0)
