"""The txnindex files: believed only where their checksum says so, computed anew elsewhere."""

from __future__ import annotations

from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.txn_index import AbortedTransaction
from tests.server.storage.memory_files import MemoryFiles

ROWS = [AbortedTransaction(1, n, n + 1, n + 2) for n in range(0, 10, 2)]


class Recomputing:
    """Stands for the log, and remembers what was asked of it."""

    def __init__(self) -> None:
        self.asked: list[int] = []

    def __call__(self, base_offset: int) -> list[AbortedTransaction]:
        self.asked.append(base_offset)
        return ROWS


def test_rows_with_their_checksum_are_read_from_the_file() -> None:
    files = MemoryFiles()
    files.make_directory("d")
    log = Recomputing()
    aborted = AbortedTransactions(files, "d", log)
    aborted.start(0)
    for row in ROWS:
        aborted.append(0, row)
    aborted.start(100)
    aborted.checkpoint([0, 100])
    again = AbortedTransactions(files, "d", log)
    assert again.rows(0) == ROWS
    assert again.rows(100) == []
    assert again.collect([0, 100], 3, 5) == ROWS[1:3]
    assert log.asked == []


def test_rows_without_a_checksum_are_computed_and_then_remembered() -> None:
    files = MemoryFiles()
    files.make_directory("d")
    log = Recomputing()
    aborted = AbortedTransactions(files, "d", log)
    assert aborted.rows(0) == ROWS
    assert aborted.rows(0) == ROWS
    aborted.checkpoint([0])
    assert AbortedTransactions(files, "d", log).rows(0) == ROWS
    assert log.asked == [0]


def test_only_so_many_segments_stay_in_memory_and_the_last_always() -> None:
    files = MemoryFiles()
    files.make_directory("d")
    aborted = AbortedTransactions(files, "d", Recomputing())
    aborted.start(1000)
    for base_offset in range(200):
        aborted.rows(base_offset)
    assert len(aborted._loaded) <= 64
    assert 1000 in aborted._loaded
