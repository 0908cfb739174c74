"""ElectLeaders: the outcomes of Kafka's ReplicationControlManager (KIP-183, KIP-460)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.requested_elections import (
    ElectionType,
    Outcome,
    requested_elections,
)
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.test_controller import WHOLE, State, cluster_with

NAME = TopicPartition("t", 0)
RULES = ElectionRules(min_insync_replicas=1)
PREFERRED, UNCLEAN = ElectionType.PREFERRED, ElectionType.UNCLEAN
NOT_NEEDED = ErrorCode.ELECTION_NOT_NEEDED
NO_PREFERRED = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
NONE_ELIGIBLE = ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE
FOLLOWED: State = (2, (2, 3, 1), (), ())
ALONE: State = (2, (2,), (), ())
OFFLINE: State = (-1, (), (2,), (2,))


def code_of(outcome: Outcome) -> ErrorCode:
    return ErrorCode.NONE if outcome is None else outcome.code


@pytest.mark.parametrize(
    ("state", "kind", "dead", "code", "after"),
    [
        (WHOLE, PREFERRED, (), NOT_NEEDED, WHOLE),
        (FOLLOWED, PREFERRED, (), ErrorCode.NONE, (1, (2, 3, 1), (), ())),
        # The preferred replica is not in sync, or not alive.
        (ALONE, PREFERRED, (), NO_PREFERRED, ALONE),
        (FOLLOWED, PREFERRED, (1,), NO_PREFERRED, FOLLOWED),
        (OFFLINE, PREFERRED, (2,), NO_PREFERRED, OFFLINE),
        (FOLLOWED, UNCLEAN, (), NOT_NEEDED, FOLLOWED),
        # The operator decides, whatever the topic's setting is.
        (OFFLINE, UNCLEAN, (2,), ErrorCode.NONE, (1, (1,), (), ())),
        (OFFLINE, UNCLEAN, (1, 2), ErrorCode.NONE, (3, (3,), (), ())),
        (OFFLINE, UNCLEAN, (1, 2, 3), NONE_ELIGIBLE, OFFLINE),
    ],
)
def test_an_election_and_its_outcome(
    state: State, kind: ElectionType, dead: tuple[int, ...], code: ErrorCode, after: State
) -> None:
    cluster = cluster_with(state)
    cluster.stop(*dead)
    elections = requested_elections(cluster.image, RULES, kind, [NAME])
    assert code_of(elections.outcomes[NAME]) == code
    assert bool(elections.writes) == (code == ErrorCode.NONE)
    assert cluster.apply(elections.writes)
    found = cluster.partition("t")
    assert (found.leader, found.isr, found.elr, found.last_known_elr) == after
    assert found.leader_epoch == 7 + (code == ErrorCode.NONE)


def test_an_unclean_election_prefers_a_replica_that_has_every_record() -> None:
    cluster = cluster_with(OFFLINE)
    assert cluster.apply(requested_elections(cluster.image, RULES, UNCLEAN, [NAME]).writes)
    assert cluster.partition("t").leader == 2


@pytest.mark.parametrize(("dead", "unclean"), [((), ()), ((2,), (NAME,))])
def test_only_a_leader_from_outside_of_isr_and_elr_is_unclean(
    dead: tuple[int, ...], unclean: tuple[TopicPartition, ...]
) -> None:
    """Broker 2 is in the ELR, and has every record. A warning about it would be a false alarm."""
    cluster = cluster_with(OFFLINE)
    cluster.stop(*dead)
    elections = requested_elections(cluster.image, RULES, UNCLEAN, [NAME])
    assert elections.outcomes == {NAME: None}
    assert elections.unclean == unclean


def test_unknown_topics_and_partitions() -> None:
    cluster = cluster_with(WHOLE)
    wanted = [TopicPartition("t", 7), TopicPartition("t", -1), TopicPartition("u", 0)]
    outcomes = requested_elections(cluster.image, RULES, PREFERRED, wanted).outcomes
    assert [str(outcomes[name]) for name in wanted] == [
        "UNKNOWN_TOPIC_OR_PARTITION: No such partition as t-7",
        "UNKNOWN_TOPIC_OR_PARTITION: No such partition as t--1",
        "UNKNOWN_TOPIC_OR_PARTITION: No such topic as u",
    ]


@pytest.mark.parametrize(("kind", "code"), [(PREFERRED, NO_PREFERRED), (UNCLEAN, NONE_ELIGIBLE)])
def test_a_leader_with_an_unusable_log(kind: ElectionType, code: ErrorCode) -> None:
    cluster = cluster_with(WHOLE)
    elections = requested_elections(cluster.image, RULES, kind, [NAME], unserved={NAME})
    assert code_of(elections.outcomes[NAME]) == code


def test_a_stale_election_changes_nothing() -> None:
    """Any broker may elect, so the write does not depend on the controller's key. It depends on the
    revision of the partition and on the registration of the new leader."""
    cluster = cluster_with(FOLLOWED)
    writes = requested_elections(cluster.image, RULES, PREFERRED, [NAME]).writes
    cluster.restart(1)
    assert not cluster.apply(writes)
    cluster = cluster_with(FOLLOWED)
    writes = requested_elections(cluster.image, RULES, PREFERRED, [NAME]).writes
    assert cluster.apply(writes)
    assert not cluster.apply(writes)
