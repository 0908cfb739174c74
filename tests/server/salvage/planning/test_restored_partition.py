"""The leader that a recovery chooses for a partition has every committed record."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from oncelog_protocol.types import uuid_to_string
from oncelog_server.cluster import records
from oncelog_server.cluster.records import (
    PartitionRecord,
)
from oncelog_server.salvage.planning.directories import SurveyedDirectory
from tests.server.salvage.planning.sources import (
    BROKERS,
    ID,
    WHOLE,
    directory,
    folder,
    known,
    next_producer_id,
    partition,
    plan,
)

Log = list[tuple[int, int]]


class Replication:
    """A partition with three replicas, as the brokers keep it. A record is its leader epoch and a
    number. `committed`: the records that all replicas of the ISR had while the ISR had at least two
    members."""

    def __init__(self) -> None:
        self.logs: dict[int, Log] = {broker_id: [] for broker_id in BROKERS}
        # The epochs that leaders have noted without a record yet.
        self.noted = dict.fromkeys(BROKERS, -1)
        self.leader, self.epoch, self.isr = 1, 0, set(BROKERS)
        self.committed: Log = []

    def step(self, action: str, broker_id: int) -> None:
        getattr(self, action)(broker_id)
        self._commit()

    def append(self, _: int) -> None:
        log = self.logs[self.leader]
        log.append((self.epoch, len(log)))

    def fetch(self, broker_id: int) -> None:
        if broker_id == self.leader:
            return
        same = self._same(broker_id)
        log, leaders = self.logs[broker_id], self.logs[self.leader]
        if same < len(log) or same < len(leaders):
            self.noted[broker_id] = -1
        self.logs[broker_id] = leaders[: same + 1]
        if len(leaders) <= same + 1 and self._reaches(broker_id):
            self.isr.add(broker_id)

    def shrink(self, broker_id: int) -> None:
        if broker_id != self.leader:
            self.isr.discard(broker_id)

    def elect(self, broker_id: int) -> None:
        if broker_id in self.isr:
            self.leader, self.epoch = broker_id, self.epoch + 1
            self.noted[broker_id] = self.epoch

    def _same(self, broker_id: int) -> int:
        pairs = zip(self.logs[broker_id], self.logs[self.leader], strict=False)
        return next(
            (at for at, (own, leaders) in enumerate(pairs) if own != leaders),
            min(len(self.logs[broker_id]), len(self.logs[self.leader])),
        )

    def _reaches(self, broker_id: int) -> bool:
        return self._same(broker_id) >= len(self.committed)

    def _commit(self) -> None:
        if len(self.isr) >= 2:
            end = min(len(self.logs[b]) if b == self.leader else self._same(b) for b in self.isr)
            if end > len(self.committed):
                self.committed = self.logs[self.leader][:end]

    def directories(self) -> list[SurveyedDirectory]:
        return [
            directory(
                broker_id,
                folder(
                    leader_epoch=max([self.noted[broker_id], *(epoch for epoch, _ in log)]),
                    log_end=len(log),
                    log_bytes=100 * len(log),
                ),
            )
            for broker_id, log in self.logs.items()
        ]


steps = st.lists(
    st.tuples(
        st.sampled_from(["append", "fetch", "fetch", "fetch", "shrink", "elect"]),
        st.sampled_from(BROKERS),
    ),
    max_size=60,
)

# The former leader has the longer log, and none of its later records is committed.
DEPOSED = [
    *(("append", 1), ("append", 1), ("append", 1), ("elect", 2)),
    *(("append", 2), ("fetch", 3), ("shrink", 1)),
]


@example(steps=DEPOSED, lost=None)
@given(steps=steps, lost=st.sampled_from([None, *BROKERS]))
def test_the_leader_has_every_committed_record(
    steps: list[tuple[str, int]], lost: int | None
) -> None:
    """This holds even if one directory is lost, because two replicas had to acknowledge each
    record."""
    replication = Replication()
    for step in steps:
        replication.step(*step)
    directories = [d for d in replication.directories() if d.node_id != lost]
    without = () if lost is None else (lost,)
    made = partition(plan(directories, None, BROKERS, without))
    assert replication.logs[made.leader][: len(replication.committed)] == replication.committed
    assert made.isr == (made.leader,)
    assert made.leader_epoch > replication.epoch


def test_a_damaged_log_counts_up_to_its_damage() -> None:
    """The start cuts the log there, and the other replicas would follow. Its epochs and ids still
    count."""
    damaged = folder(leader_epoch=9, producer_id=7000, log_end=100, whole_end=50, whole_epoch=3)
    whole = folder(leader_epoch=3, log_end=80)
    directories = [directory(1, damaged), directory(2, whole), directory(3, folder(log_end=10))]
    made = plan(directories, None, BROKERS)
    assert partition(made).leader == 2
    assert partition(made).leader_epoch > 9
    assert next_producer_id(made) > 7000
    assert "broker 1: t-0 is damaged at offset 50, with batches up to 100" in made.notes
    assert not any("t-0 is damaged" in note for note in plan(WHOLE, None, BROKERS).notes)


def test_a_partition_that_only_a_lost_broker_had_gets_a_leader() -> None:
    key = records.partition_key(uuid_to_string(ID), 0)
    found = known({key: PartitionRecord((3,), (3,), 3, 4)})
    made = plan([directory(1), directory(2)], found, BROKERS, without=(3,))
    record = partition(made)
    assert (record.replicas, record.isr, record.leader) == ((3, 1), (1,), 1)
