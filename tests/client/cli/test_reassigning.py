"""A plan of moves is carried out to its end, whatever happens to brokers and topics meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, cast

import pytest

from oncelog_client.admin import (
    Admin,
    AlterConfigOp,
    ClusterDescription,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    ElectionType,
    PartitionReassignment,
    ResourceType,
    TopicDescription,
    TopicListing,
)
from oncelog_client.cli import reassigning
from oncelog_client.cli.cluster_state import ClusterState
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.reassigning import Plan, cancel, carry_out
from oncelog_client.core.move_throttles import RATES, REPLICAS
from oncelog_client.core.replica_layout import Move
from oncelog_client.errors import KafkaError
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
THROTTLE = 1_000
ID = b"i" * 16


class Brokers:
    """The state behind an admin client. A move ends when `moved` has been called; `after_moves` is
    called at that moment."""

    def __init__(self, replicas: Mapping[TopicPartition, Sequence[int]]) -> None:
        self.replicas = {place: tuple(brokers) for place, brokers in replicas.items()}
        self.leaders = {place: brokers[0] for place, brokers in self.replicas.items()}
        self.alive = {1, 2, 3}
        self.settings: dict[ConfigResource, dict[str, str]] = {}
        self.allowed: list[bool] = []
        self.cancelled: list[TopicPartition] = []
        self.moving: dict[TopicPartition, Sequence[int]] = {}
        self.after_moves: Callable[[], None] = lambda: None

    def state(self) -> ClusterState:
        return ClusterState(self._nodes(), {}, self._partitions(), {})

    def _nodes(self) -> dict[int, Node]:
        return {broker: Node(broker, "h", 1, None) for broker in sorted(self.alive)}

    def _partitions(self) -> dict[TopicPartition, PartitionInfo]:
        return {
            place: PartitionInfo(*place, self.leaders[place], 1, brokers, brokers)
            for place, brokers in self.replicas.items()
        }

    async def describe_cluster(self) -> ClusterDescription:
        return ClusterDescription("c", None, tuple(self._nodes().values()))

    async def list_topics(self, *, list_internal: bool) -> dict[str, TopicListing]:
        return {place.topic: TopicListing(place.topic, ID, False) for place in self.replicas}

    async def describe_topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        found = self._partitions().values()
        rows = {name: tuple(info for info in found if info.topic == name) for name in names}
        if not all(rows.values()):
            raise KafkaError("", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return {name: TopicDescription(name, ID, False, infos) for name, infos in rows.items()}

    async def alter_partition_reassignments(
        self,
        wanted: Mapping[TopicPartition, Sequence[int] | None],
        *,
        allow_replication_factor_change: bool = True,
    ) -> None:
        for place, brokers in wanted.items():
            if brokers is not None:
                self.allowed.append(allow_replication_factor_change)
                self.moving[place] = brokers
            elif self.moving.pop(place, None) is None:
                raise KafkaError("", ErrorCode.NO_REASSIGNMENT_IN_PROGRESS)
            else:
                self.cancelled.append(place)

    async def list_partition_reassignments(self) -> dict[TopicPartition, None]:
        found = dict.fromkeys(self.moving)
        if self.moving:
            self._move()
        return found

    def _move(self) -> None:
        for place, brokers in self.moving.items():
            self.replicas[place] = tuple(brokers)
            if self.leaders[place] not in brokers:
                self.leaders[place] = next(broker for broker in brokers if broker in self.alive)
        self.moving.clear()
        self.after_moves()

    async def describe_configs(
        self, resources: Iterable[ConfigResource], *, names: Sequence[str]
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        source = ConfigSource.DYNAMIC_TOPIC_CONFIG
        return {
            resource: {
                name: ConfigEntry(name, value, source)
                for name, value in self.settings.get(resource, {}).items()
                if name in names
            }
            for resource in resources
        }

    async def alter_configs(
        self, changes: Mapping[ConfigResource, Iterable[AlterConfigOp]]
    ) -> None:
        for resource, ops in changes.items():
            if resource.type is ResourceType.BROKER and int(resource.name) not in self.alive:
                raise KafkaError(resource.name, ErrorCode.BROKER_NOT_AVAILABLE)
            present = self.settings.setdefault(resource, {})
            for op in ops:
                if op.op == "delete":
                    present.pop(op.name, None)
                else:
                    present[op.name] = op.value or ""

    async def elect_leaders(
        self, election_type: ElectionType, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        assert election_type is ElectionType.PREFERRED
        for place in places:
            if self.replicas[place][0] in self.alive:
                self.leaders[place] = self.replicas[place][0]
        return dict.fromkeys(places)

    def throttles(self) -> dict[str, dict[str, str]]:
        """Return the settings of topics, and of brokers that are alive."""
        return {
            resource.name: settings
            for resource, settings in self.settings.items()
            if settings
            and (resource.type is ResourceType.TOPIC or int(resource.name) in self.alive)
        }


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassigning, "POLL_S", 0.001)
    monkeypatch.setattr(reassigning, "SETTLE_MS", 200)


def carried_out(brokers: Brokers, *moves: Move, throttle: int | None = THROTTLE) -> None:
    plan = Plan(moves, (), {}, "")
    asyncio.run(carry_out(cast(Admin, brokers), plan, brokers.state(), throttle))


def test_moves_do_not_change_the_number_of_replicas_and_leave_no_throttle() -> None:
    """Another request may have changed the number since the plan was made (KIP-860)."""
    brokers = Brokers({A: [1, 2], B: [1, 2]})
    during: list[dict[str, dict[str, str]]] = []
    brokers.after_moves = lambda: during.append(
        {name: dict(settings) for name, settings in brokers.throttles().items()}
    )
    carried_out(brokers, Move(A, (1, 2), (3, 2)), Move(B, (1, 2), (2, 1)))
    assert brokers.allowed == [False, False]
    assert brokers.leaders == {A: 3, B: 2}
    rates = dict.fromkeys(RATES, str(THROTTLE))
    replicas = dict(zip(REPLICAS, ("0:1,0:2", "0:3"), strict=True))
    assert during == [{"1": rates, "2": rates, "3": rates, "t": replicas}]
    assert brokers.throttles() == {}


def test_a_broker_that_stops_before_the_election_is_no_failure() -> None:
    """It gets the leaders when it is back. The throttle of the others is removed."""
    brokers = Brokers({A: [1, 2], B: [1, 2]})

    def stop() -> None:
        brokers.alive.remove(3)
        brokers.leaders[A] = 2

    brokers.after_moves = stop
    carried_out(brokers, Move(A, (1, 2), (3, 2)), Move(B, (1, 2), (2, 1)))
    assert brokers.throttles() == {}
    assert brokers.leaders == {A: 2, B: 2}, "the elections at live brokers took place"


def test_a_leader_that_is_not_elected_is_named() -> None:
    brokers = Brokers({A: [1, 2]})

    code = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE

    async def refused(
        election_type: ElectionType, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        return {place: KafkaError("", code) for place in places}

    brokers.elect_leaders = refused  # type: ignore[method-assign]
    not_in_sync = "leader, because the preferred one is not in sync: t-0"
    with pytest.raises(Failed, match=rf"1 partition kept another {not_in_sync}"):
        carried_out(brokers, Move(A, (1, 2), (2, 1)))
    code = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    with pytest.raises(Failed, match=r"another leader \(CLUSTER_AUTHORIZATION_FAILED\): t-0"):
        carried_out(brokers, Move(A, (1, 2), (2, 1)))


def test_all_leaders_are_elected_although_each_step_takes_long(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The controller elects a few leaders at a time. The first partitions, which cannot be elected,
    keep no other from a request."""
    monkeypatch.setattr(reassigning, "AT_ONCE", 3)
    every = [TopicPartition("t", number) for number in range(12)]
    brokers = Brokers({place: [2, 1] for place in every})
    brokers.leaders = dict.fromkeys(every, 1)
    late: set[TopicPartition] = set(every[:3])
    now_ms = 0.0
    monkeypatch.setattr(reassigning, "monotonic_ms", lambda: now_ms)

    async def elect_one(
        election_type: ElectionType, places: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        nonlocal now_ms
        now_ms += reassigning.SETTLE_MS / 4
        chosen = [place for place in places if place not in late][:1]
        brokers.leaders.update(dict.fromkeys(chosen, 2))
        if all(brokers.leaders[place] == 2 for place in every[3:]):
            late.clear()
        return dict.fromkeys(places)

    brokers.elect_leaders = elect_one  # type: ignore[method-assign]
    plan = Plan((), (), dict.fromkeys(every, 2), "")
    asyncio.run(carry_out(cast(Admin, brokers), plan, brokers.state(), None))
    assert set(brokers.leaders.values()) == {2}
    assert now_ms > 2 * reassigning.SETTLE_MS


def test_a_throttle_is_also_for_the_moves_that_have_begun() -> None:
    """A second plan must not remove the throttle of moves that an earlier one has begun."""
    brokers = Brokers({A: [1, 2, 3], B: [1, 2]})
    begun = brokers.state()._replace(moving={A: PartitionReassignment((1, 2, 3), (3,), (1,))})
    brokers.moving = {A: (2, 3)}
    during: list[dict[str, dict[str, str]]] = []
    brokers.after_moves = lambda: during.append(
        {name: dict(settings) for name, settings in brokers.throttles().items()}
    )
    for moves, resumed, replicas in (
        ((), (A,), ("0:1,0:2", "0:3")),
        ((Move(B, (1, 2), (3, 2)),), (), ("1:1,1:2,0:1,0:2", "1:3,0:3")),
    ):
        brokers.moving = {A: (2, 3)}
        plan = Plan(moves, resumed, {}, "")
        asyncio.run(carry_out(cast(Admin, brokers), plan, begun, THROTTLE))
        assert during.pop()["t"] == dict(zip(REPLICAS, replicas, strict=True))
        assert brokers.throttles() == {}


def test_rates_are_removed_although_the_topic_was_deleted_during_the_move() -> None:
    """After the deletion, no topic has a list of throttled replicas, which would show that brokers
    have rates."""
    brokers = Brokers({A: [1, 2]})

    def delete() -> None:
        brokers.replicas.clear()
        brokers.settings.pop(ConfigResource(ResourceType.TOPIC, "t"))

    brokers.after_moves = delete
    carried_out(brokers, Move(A, (1, 2), (3, 2)))
    assert brokers.throttles() == {}


def test_a_move_that_another_request_has_replaced_is_named() -> None:
    brokers = Brokers({A: [1, 2]})
    brokers.after_moves = lambda: brokers.replicas.update({A: (1, 3)})
    with pytest.raises(Failed, match=r"1 partition did not move.*t-0"):
        carried_out(brokers, Move(A, (1, 2), (2, 3)))
    assert brokers.throttles() == {}


@pytest.mark.parametrize("moving", [{}, {B: [2]}, {A: [2], B: [2]}])
def test_a_cancellation_of_moves_that_have_ended_is_no_error(
    moving: dict[TopicPartition, Sequence[int]],
) -> None:
    brokers = Brokers({A: [1], B: [1]})
    brokers.moving = dict(moving)

    async def left() -> dict[TopicPartition, Any]:
        return dict(brokers.moving)

    brokers.list_partition_reassignments = left  # type: ignore[method-assign]
    are_all = asyncio.run(cancel(cast(Admin, brokers), [A, B]))
    assert are_all is (len(moving) == 2)
    assert brokers.cancelled == list(moving)
    assert brokers.replicas == {A: (1,), B: (1,)}
