"""Whatever brokers, controller and reassignments do, a leader has every committed record.

The model is the one of test_controller_properties.py, with a partition that moves between the
brokers. A broker that loses its replica deletes the log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.cluster.image import NO_LEADER, PartitionImage
from oncelog_server.cluster.reassignment import Reassignment
from oncelog_server.cluster.reassignment_changes import PartitionTarget, reassign_partitions
from tests.examples import examples
from tests.server.cluster.test_controller_properties import LIKELY, REPLICAS, Model, Step

# The replicas that a verb wants, by the broker of the step. A partition has at least two replicas.
TARGETS: Final[dict[str, dict[int, tuple[int, ...]]]] = {
    "move": {1: (1, 2), 2: (2, 3), 3: (3, 1)},
    "grow": {1: (1, 2, 3), 2: (2, 3, 1), 3: (3, 1, 2)},
    "stay alone": {1: (1,), 2: (2,), 3: (3,)},
}
MOVES: Final = ("move", "move", "grow", "stay alone", "cancel", "catch up", "catch up")
STEPS: Final = st.lists(
    st.tuples(st.sampled_from((*LIKELY, *MOVES)), st.sampled_from(REPLICAS), st.booleans()),
    min_size=10,
    max_size=60,
)


class MovingModel(Model):
    """The model of a partition that begins on the brokers 1 and 2."""

    def __init__(self, min_isr: int) -> None:
        super().__init__(min_isr, (1, 2))

    def do(self, verb: str, broker: int) -> None:
        if verb in TARGETS:
            self.reassign(TARGETS[verb][broker])
        elif verb == "cancel":
            self.reassign(None)
        elif verb == "catch up":
            for follower in REPLICAS:
                super().do("join", follower)
        else:
            super().do(verb, broker)

    def decide(self) -> None:
        super().decide()
        self.delete_removed()

    def reassign(self, replicas: tuple[int, ...] | None) -> None:
        if replicas is not None and len(replicas) < self.min_isr:
            return
        before = self.cluster.partition("t")
        target = PartitionTarget("t", 0, replicas)
        (refused,), writes = reassign_partitions(self.cluster.image, self.rules, [target])
        assert self.cluster.apply(writes)
        after = self.cluster.partition("t")
        if refused is not None:
            assert replicas is None
            assert after == before
            return
        self.delete_removed()
        present = Reassignment.of(before)
        expected = present.cancelled() if replicas is None else present.towards(replicas)
        completed = Reassignment(expected.target)
        assert Reassignment.of(after) in (expected, completed)
        if self.serves(before):
            assert after.leader != NO_LEADER, "a request has made the partition unavailable"
        # A repeated request changes nothing more.
        again = reassign_partitions(self.cluster.image, self.rules, [target])[1]
        assert replicas is None or not again

    def serves(self, partition: PartitionImage) -> bool:
        """Return True if no rule ends the leadership."""
        image, leader = self.cluster.image, partition.leader
        alive = leader in image.brokers and leader not in image.draining
        return alive and partition.joined(leader) == image.brokers[leader].epoch

    def delete_removed(self) -> None:
        replicas = self.cluster.partition("t").replicas
        for broker in self.cluster.image.brokers.keys() - set(replicas):
            self.logs[broker], self.synced[broker] = [], 0
            self.acked.pop(broker, None)

    def start(self, broker: int) -> None:
        super().start(broker)
        if "t" in self.cluster.image.topics:
            self.delete_removed()

    def require(self, min_isr: int) -> None:
        replicas = self.cluster.partition("t")
        if min_isr <= min(len(replicas.replicas), len(Reassignment.of(replicas).target)):
            super().require(min_isr)

    def lead(self, verb: str, follower: int) -> None:
        if verb not in ("fetch", "join") or follower in self.cluster.partition("t").replicas:
            super().lead(verb, follower)


@settings(max_examples=examples(300), deadline=None)
@given(min_isr=st.integers(1, 2), steps=STEPS)
def test_a_moving_partition_has_every_committed_record(min_isr: int, steps: Sequence[Step]) -> None:
    model = MovingModel(min_isr)
    for verb, broker, decides in steps:
        model.do(verb, broker)
        model.check()
        if decides:
            model.decide()
            model.check()
            before = model.cluster.partition("t")
            model.decide()
            assert model.cluster.partition("t") == before, "a decision is made twice"


@settings(max_examples=examples(100), deadline=None)
@given(min_isr=st.integers(1, 2), steps=STEPS)
def test_a_reassignment_completes_when_all_brokers_are_alive(
    min_isr: int, steps: Sequence[Step]
) -> None:
    model = MovingModel(min_isr)
    for verb, broker, decides in steps:
        model.do(verb, broker)
        if decides:
            model.decide()
    for broker in REPLICAS:
        model.do("start", broker)
        model.do("resume", broker)
    target = Reassignment.of(model.cluster.partition("t")).target
    model.decide()
    model.do("catch up", 0)
    model.decide()
    model.check()
    found = model.cluster.partition("t")
    assert (found.replicas, found.adding, found.removing) == (target, (), ())
    assert found.leader in target
    assert set(found.isr) <= set(target)
