"""A read_committed Fetch of a log without `txn-index-checkpoint` computes the aborted transactions
in slices."""

from __future__ import annotations

from oncelog_server.deferred import Deferred
from oncelog_server.fetching.fetch import FetchLimits, fetch
from oncelog_server.fetching.fetched_partition import FetchedPartition, PartitionKey
from oncelog_server.fetching.read import FetchResult
from oncelog_server.partition.isolation import Isolation
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import Slices, Steps, at_its_end
from oncelog_server.storage.layout import TXN_INDEX_CHECKPOINT
from tests.server.log.driver import DIRECTORY, MANY, Driver, busy
from tests.server.manual_timers import ManualTimers
from tests.server.partition.partitions import held_by
from tests.server.storage.memory_files import bytes_read


class Finder:
    def __init__(self, partition: Partition) -> None:
        self.found = [partition]

    def find(self, key: PartitionKey) -> Partition:
        return self.found[0]


def respond(result: FetchResult) -> Steps[FetchResult]:
    yield
    return result


class Reader:
    def __init__(self) -> None:
        self.driver = busy()
        recovery_point, start = self.driver.stop()
        del self.driver.files.nodes[f"{DIRECTORY}/{TXN_INDEX_CHECKPOINT}"]
        for path in [path for path in self.driver.files.nodes if path.endswith(".snapshot")]:
            del self.driver.files.nodes[path]
        self.driver.log = self.driver.open(
            clean=True, recovery_point=recovery_point, log_start_offset=start,
            closed=self.driver.log.remembered(),
        )  # fmt: skip
        self.partition = held_by(self.driver.log)
        self.partition.become_leader(0, 0, (0,), (0,))
        self.timers = ManualTimers()
        self.slices = Slices(self.timers, lambda: self.timers.now_ms, steps_per_slice=1)

    def fetch(
        self, isolation: Isolation, max_wait_ms: int = 500
    ) -> FetchResult | Deferred[FetchResult]:
        wanted = FetchedPartition(PartitionKey("t", 0), 0, 10_000)
        return at_its_end(
            fetch(
                [wanted], Finder(self.partition), isolation, FetchLimits(1, MANY, 500),
                respond, timers=self.timers, slices=self.slices,
            )
        )  # fmt: skip


def test_the_rows_are_computed_between_other_callbacks_of_the_loop() -> None:
    reader = Reader()
    with bytes_read() as read:
        response = reader.fetch(Isolation.READ_COMMITTED)
    assert isinstance(response, Deferred)
    assert sum(read) < reader.driver.log.segments[0].size
    other = reader.fetch(Isolation.READ_COMMITTED)
    assert isinstance(other, Deferred)
    turns = 0
    while reader.timers.soon:
        turns += 1
        reader.timers.soon.pop(0)()
        reader.driver.files.settle()
    assert turns > 3
    for found in (response, other):
        (part,) = found.value.partitions
        assert part.read is not None
        assert part.read.records is not None
        assert part.read.aborted == expected(reader.driver)
    assert reader.driver.log.segments.aborted._computation is None


def expected(driver: Driver) -> list[object]:
    log = driver.log
    return list(log.aborted_transactions(0, log.segments[0].end_offset))


def test_a_read_uncommitted_fetch_needs_no_rows() -> None:
    reader = Reader()
    response = reader.fetch(Isolation.READ_UNCOMMITTED)
    assert not isinstance(response, Deferred)
    assert response.size
    assert reader.driver.log.segments.aborted.unknown
