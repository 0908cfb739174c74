"""The log trusts a txnindex file only with a matching checksum. Otherwise it computes the rows
again."""

from __future__ import annotations

from oncelog_server.log.aborted import AbortedTransactions
from oncelog_server.log.config import LogConfig
from oncelog_server.log.txn_index import AbortedTransaction, encode_row
from tests.server.log.driver import Driver
from tests.server.storage.memory_files import MemoryFiles
from tests.simulation.checking.logs import partitions_in
from tests.simulation.checking.partition_rules import check_partition

ROWS = [AbortedTransaction(1, n, n + 1, n + 2) for n in range(0, 10, 2)]


class Recomputing:
    """A stand-in for the log that records its calls."""

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
    aborted.checkpoint({0: 1000, 100: 0})
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
    aborted.checkpoint({0: 1000})
    assert AbortedTransactions(files, "d", log).rows(0) == ROWS
    assert log.asked == [0]


def test_the_rows_of_at_most_64_segments_stay_in_memory_including_the_last() -> None:
    files = MemoryFiles()
    files.make_directory("d")
    aborted = AbortedTransactions(files, "d", Recomputing())
    aborted.start(1000)
    for base_offset in range(200):
        aborted.rows(base_offset)
    assert len(aborted._loaded) <= 64
    assert 1000 in aborted._loaded


def test_M25_a_segment_that_is_scanned_again_begins_with_an_empty_txnindex() -> None:
    files = MemoryFiles()
    files.make_directory("d")
    aborted = AbortedTransactions(files, "d", Recomputing())
    aborted.start(0)
    for row in ROWS:
        aborted.append(0, row)
    again = AbortedTransactions(files, "d", Recomputing())
    again.start(0)
    again.append(0, ROWS[0])
    (path,) = [path for path in files.nodes if path.endswith(".txnindex")]
    assert bytes(files.nodes[path].data) == encode_row(ROWS[0])


def test_M25_rows_of_truncated_transactions_are_in_no_file() -> None:
    driver = Driver(LogConfig())
    for turn in range(3):
        driver.send(1, turn, transactional=True)
        driver.mark(1, committed=False)
    log = driver.files.nodes["topic-0/00000000000000000000.log"]
    del log.data[-1:]
    driver.log = driver.open(clean=False)
    assert driver.log.log_end_offset == 5
    (partition,) = partitions_in({p: bytes(n.data) for p, n in driver.files.nodes.items()}).values()
    assert len(partition.whole.rows) == 2
    assert check_partition(partition) == []
