"""Three replicas with drawn fetches, kills, elections and changes of the ISR: no committed record
is ever lost, and logs with the same offset and epoch are equal below that offset (KIP-101,
KIP-320)."""

from __future__ import annotations

from itertools import combinations
from typing import Any, Final

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from oncelog_protocol.records.batch import read_header
from oncelog_server.partition.isr_updates import IsrUpdates
from oncelog_server.partition.partition import Partition
from oncelog_server.refusal import Refused
from oncelog_server.replica.isr_changes import IsrOutcome, IsrProposal
from oncelog_server.slices import at_its_end
from tests.examples import examples
from tests.server.fetcher.cluster import Node, batches, exchange
from tests.server.log.driver import NOW_MS, batch

ALL: Final = (0, 1, 2)
MAX_LAG_MS: Final = 5_000
NODES = st.sampled_from(ALL)


class Store:
    """The partition's record: its leader, epochs and ISR. A proposal is applied if the record is
    still the one that the leader has seen. Its outcome may get lost."""

    def __init__(self) -> None:
        self.leader, self.leader_epoch, self.partition_epoch = 0, 0, 0
        self.isr: tuple[int, ...] = ALL
        self.loses_outcome = False
        self.late: list[IsrProposal] = []

    def propose(self, proposal: IsrProposal, settled: Any, /) -> None:
        if self.loses_outcome:
            self.late.append(proposal)
            settled(IsrOutcome.UNKNOWN)
            return
        settled(IsrOutcome.COMMITTED if self.apply(proposal) else IsrOutcome.REFUSED)

    def apply(self, proposal: IsrProposal) -> bool:
        seen = (proposal.leader_epoch, proposal.partition_epoch)
        if seen != (self.leader_epoch, self.partition_epoch):
            return False
        self.write(proposal.isr)
        return True

    def write(self, isr: tuple[int, ...], leader: int | None = None) -> None:
        self.isr = isr
        self.partition_epoch += 1
        if leader is not None:
            self.leader = leader
            self.leader_epoch += 1


class Replication(RuleBasedStateMachine):
    @initialize(min_isr=st.sampled_from((1, 2)))
    def begin(self, min_isr: int) -> None:
        self.store = Store()
        self.nodes = [Node(id, min_insync_replicas=min_isr) for id in ALL]
        self.updates = [
            IsrUpdates(
                _Partitions(node),
                self.store,
                epochs=lambda _: {node.broker_id: node.epoch for node in self.nodes},
                monotonic_ms=lambda: 0,
                max_lag_ms=MAX_LAG_MS,
            )
            for node in self.nodes
        ]
        self.now_ms = 1_000
        for updates in self.updates:
            updates._monotonic_ms = lambda: self.now_ms
        # Every record that some leader has counted as committed, by offset.
        self.committed: dict[int, bytes] = {}
        self.sent = 0
        for id in ALL:
            self.learn(id)

    def partition(self, id: int) -> Partition:
        return self.nodes[id].partitions[0]

    # --- clients

    @rule(id=NODES, count=st.integers(1, 3))
    def produce(self, id: int, count: int) -> None:
        """Append to a node that believes it leads. No other record has the same value."""
        self.sent += 1
        data = batch(count, timestamp=NOW_MS + self.sent)
        try:
            self.partition(id).append(data, now_ms=NOW_MS)
        except Refused:
            return
        self.note_committed()

    # --- replication

    @rule(id=NODES)
    def fetch(self, id: int) -> None:
        """Let one Fetch and its response arrive, from the leader that the follower knows."""
        follower = self.partition(id)
        if follower.is_leader or follower.leader_id < 0:
            return
        leader = self.nodes[follower.leader_id]
        exchange(leader, self.nodes[id])
        self.after_fetch(leader)

    @rule(id=NODES)
    def fetch_and_lose_the_response(self, id: int) -> None:
        node, follower = self.nodes[id], self.partition(id)
        if follower.is_leader or follower.leader_id < 0:
            return
        request = node.fetcher.next()
        if request is not None:
            leader = self.nodes[follower.leader_id]
            leader.answer(request, node)
            node.take(request, None)
            self.after_fetch(leader)

    def after_fetch(self, leader: Node) -> None:
        self.updates[leader.broker_id].fetched(leader.partitions[0])
        self.note_committed()

    @rule(ms=st.integers(1, 2 * MAX_LAG_MS))
    def pass_time(self, ms: int) -> None:
        self.now_ms += ms
        for node in self.nodes:
            node.now_ms = self.now_ms

    @rule(id=NODES, loses_outcome=st.booleans())
    def check_isr(self, id: int, loses_outcome: bool) -> None:
        self.store.loses_outcome = loses_outcome
        at_its_end(self.updates[id].check())
        self.store.loses_outcome = False
        self.note_committed()

    @precondition(lambda self: self.store.late)
    @rule()
    def apply_a_late_proposal(self) -> None:
        self.store.apply(self.store.late.pop(0))

    # --- metadata

    @rule(id=NODES)
    def learn(self, id: int) -> None:
        """Let a node get the newest metadata."""
        node, store = self.nodes[id], self.store
        partition = node.partitions[0]
        if store.leader != id:
            if (partition.leader_id, partition.leader_epoch) != (
                store.leader,
                store.leader_epoch,
            ) or partition.is_leader:
                node.follow(store.leader, store.leader_epoch)
            return
        partition.become_leader(id, store.leader_epoch, store.isr, ALL, store.partition_epoch)
        self.check_leader(partition)
        self.note_committed()

    @rule(leader=NODES)
    def elect(self, leader: int) -> None:
        if leader in self.store.isr:
            self.store.write(self.store.isr, leader)

    @rule(id=NODES, checkpoints=st.booleans())
    def kill(self, id: int, checkpoints: bool) -> None:
        """Kill a process, and start it again. The controller removes the broker from the ISR. If
        the broker is the last member, it leads again instead, as its log has lost nothing."""
        node, store = self.nodes[id], self.store
        if checkpoints:
            node.checkpoint()
        node.kill()
        isr = tuple(member for member in store.isr if member != id)
        if not isr:
            store.write((id,), id)
        elif id in store.isr:
            store.write(isr, isr[0] if store.leader == id else None)

    # --- promises

    def note_committed(self) -> None:
        for node in self.nodes:
            partition = node.partitions[0]
            if not partition.is_leader:
                continue
            for data in batches(node):
                header = read_header(data)
                if header.last_offset < partition.high_watermark:
                    known = self.committed.setdefault(header.base_offset, data)
                    assert known == data, "two different records were committed at an offset"

    def check_leader(self, partition: Partition) -> None:
        """A leader that the store names has every committed record."""
        if partition.leader_epoch != self.store.leader_epoch:
            return
        found = {
            read_header(data).base_offset: data for data in batches(self.nodes[self.store.leader])
        }
        lost = [offset for offset, data in self.committed.items() if found.get(offset) != data]
        assert not lost, f"the leader of epoch {partition.leader_epoch} lacks {lost}"

    @invariant()
    def logs_match(self) -> None:
        logs = [batches(node) for node in getattr(self, "nodes", ())]
        for mine, theirs in combinations(logs, 2):
            for position in range(min(len(mine), len(theirs)) - 1, -1, -1):
                if _place(mine[position]) == _place(theirs[position]):
                    assert mine[: position + 1] == theirs[: position + 1]
                    break

    @invariant()
    def watermarks_are_in_order(self) -> None:
        for node in getattr(self, "nodes", ()):
            found = node.partitions[0]
            assert (
                found.log_start_offset
                <= found.last_stable_offset
                <= found.high_watermark
                <= found.log_end_offset
            )


def _place(data: bytes) -> tuple[int, int]:
    header = read_header(data)
    return header.base_offset, header.partition_leader_epoch


class _Partitions:
    """The partitions of a node, also after a restart."""

    def __init__(self, node: Node) -> None:
        self._node = node

    def __iter__(self) -> Any:
        return iter(self._node.partitions)


TestReplication = Replication.TestCase
TestReplication.settings = settings(
    max_examples=examples(150), stateful_step_count=60, deadline=None
)
