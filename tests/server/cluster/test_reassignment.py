"""The replicas of a partition that moves: KIP-455, with the rules of Kafka's
ReplicationControlManager."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.controller import elect_leaders
from oncelog_server.cluster.image import NO_LEADER, PartitionImage
from oncelog_server.cluster.partition_additions import NewPartitions, create_partitions
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.reassignment import Reassignment
from oncelog_server.cluster.reassignment_changes import (
    MAX_REASSIGNED_AT_ONCE,
    PartitionTarget,
    reassign_partitions,
)
from oncelog_server.cluster.records import PartitionRecord
from oncelog_server.cluster.requested_elections import ElectionType, requested_elections
from oncelog_server.cluster.store import Delete, Put, Write
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.cluster.topics import NewTopic, create_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.cluster.clusters import Cluster

RULES = ElectionRules(min_insync_replicas=1)
Ids = tuple[int, ...]
SETS = st.lists(st.integers(1, 6), min_size=1, max_size=4, unique=True).map(tuple)


def reassignment(*replicas: int, adding: Ids = (), removing: Ids = ()) -> Reassignment:
    return Reassignment(replicas, adding, removing)


MOVING = reassignment(2, 3, 1, adding=(3,), removing=(1,))


@pytest.mark.parametrize(
    ("present", "target", "expected"),
    [
        (reassignment(1, 2), (2, 3), MOVING),
        (reassignment(1, 2), (2, 1), reassignment(2, 1)),
        (reassignment(1, 2), (1, 2), reassignment(1, 2)),
        (reassignment(1), (1, 2), reassignment(1, 2, adding=(2,))),
        (reassignment(3, 1, 2), (1,), reassignment(1, 2, 3, removing=(2, 3))),
        (reassignment(1, 2), (4, 3), reassignment(4, 3, 1, 2, adding=(3, 4), removing=(1, 2))),
        pytest.param(MOVING, (2, 3), MOVING, id="repeated"),
        pytest.param(
            MOVING, (2, 4), reassignment(2, 4, 1, 3, adding=(4,), removing=(1, 3)), id="replaced"
        ),
        pytest.param(
            MOVING, (3, 4), reassignment(3, 4, 1, 2, adding=(3, 4), removing=(1, 2)), id="further"
        ),
        pytest.param(MOVING, (2, 3, 1), reassignment(2, 3, 1, adding=(3,)), id="keeps all"),
        pytest.param(MOVING, (1, 2), reassignment(1, 2, 3, removing=(3,)), id="back"),
    ],
)
def test_a_target_decides_what_is_added_and_removed(
    present: Reassignment, target: Ids, expected: Reassignment
) -> None:
    assert present.towards(target) == expected


@pytest.mark.parametrize(
    ("moving", "isr", "expected"),
    [
        (reassignment(1, 2), (1, 2), None),
        (MOVING, (1, 2), None),
        (MOVING, (1, 2, 3), (2, 3)),
        pytest.param(MOVING, (3,), (2, 3), id="only the added one"),
        (reassignment(1, 2, 3, removing=(3,)), (1, 3), None),
        (reassignment(1, 2, 3, removing=(3,)), (1, 2), (1, 2)),
        pytest.param(reassignment(2, 1, removing=(1,)), (1,), None, id="an empty ISR"),
        # Kafka's example in PartitionReassignmentReplicas.
        (
            reassignment(2, 3, 4, 5, 0, 1, adding=(5,), removing=(0, 1)),
            (0, 1, 5),
            None,
        ),
        (
            reassignment(2, 3, 4, 5, 0, 1, adding=(5,), removing=(0, 1)),
            (1, 2, 3, 4, 5),
            (2, 3, 4, 5),
        ),
        (reassignment(1, 2, 3, adding=(2, 3)), (1, 2), None),
        (reassignment(1, 2, 3, adding=(2, 3)), (3, 2), (1, 2, 3)),
    ],
)
def test_a_reassignment_completes_with_the_added_replicas_in_the_isr(
    moving: Reassignment, isr: Ids, expected: Ids | None
) -> None:
    assert moving.completed(isr, 1) == (None if expected is None else Reassignment(expected))


@pytest.mark.parametrize(
    ("moving", "isr", "min_isr", "completes"),
    [
        pytest.param(MOVING, (1, 3), 2, False, id="the committed records would be on 3 alone"),
        pytest.param(MOVING, (1, 3), 1, True, id="one copy is promised"),
        pytest.param(MOVING, (2, 3), 2, True, id="both of the target"),
        pytest.param(MOVING, (2, 3), 3, True, id="the target has fewer than the min ISR"),
        pytest.param(
            reassignment(4, 2, 3, 1, adding=(4,), removing=(1,)), (1, 2, 4), 2, True,
            id="two are left",
        ),
    ],
)  # fmt: skip
def test_a_reassignment_waits_for_as_many_replicas_as_the_min_isr(
    moving: Reassignment, isr: Ids, min_isr: int, completes: bool
) -> None:
    """Otherwise, if a broker of the target is down, a committed record could be on fewer brokers
    than the min ISR."""
    assert bool(moving.completed(isr, min_isr)) is completes


@given(start=SETS, targets=st.lists(SETS, min_size=1, max_size=3))
def test_a_cancellation_returns_to_replicas_with_all_data(start: Ids, targets: list[Ids]) -> None:
    """After any requests, the last target can be reached, and a cancellation leaves no replica that
    this target has added. A replica that only an earlier target has added may stay, as in Kafka."""
    moving = Reassignment(start)
    for target in targets:
        moving = moving.towards(target)
        assert moving.target == target
        assert len(set(moving.replicas)) == len(moving.replicas)
        assert set(moving.adding) <= set(target)
        assert set(target).isdisjoint(moving.removing)
        assert moving.towards(target) == moving
        if moving.is_in_progress:
            assert moving.completed(moving.replicas, 3) == Reassignment(target)
    cancelled = moving.cancelled()
    assert not cancelled.is_in_progress
    assert set(cancelled.replicas).isdisjoint(moving.adding)
    assert set(start) <= set(cancelled.replicas)


def moved(cluster: Cluster, replicas: Ids | None, **keywords: bool) -> PartitionImage:
    """Move the partition. Return it after the write of the request. Raises Refused."""
    target = PartitionTarget("t", 0, replicas)
    (refused,), writes = reassign_partitions(cluster.image, RULES, [target], **keywords)
    if refused is not None:
        assert not writes
        raise refused
    assert cluster.apply(writes)
    return cluster.partition("t")


def cluster_with(
    replicas: Ids, isr: Ids | None = None, own: Mapping[str, str] | None = None
) -> Cluster:
    """Return a cluster of five brokers with the partition `t-0`. `own`: the settings of its
    topic."""
    cluster = Cluster((1, 2, 3, 4, 5))
    new = NewTopic("t", assignments=((0, replicas),), settings=own or {})
    cluster.apply(create_topic(cluster.image, Settings(), new, cluster.new_id())[1])
    if isr is not None:
        join(cluster, *isr)
    return cluster


def join(cluster: Cluster, *isr: int) -> None:
    """Give the partition this ISR. The first member leads it if the leader is no member."""
    found = cluster.partition("t")
    epochs = tuple(cluster.image.brokers[broker].epoch for broker in isr)
    leader = found.leader if found.leader in isr else isr[0]
    cluster.put_partition(
        "t",
        PartitionRecord(
            found.replicas,
            isr,
            leader,
            found.leader_epoch,
            found.adding,
            found.removing,
            isr_epochs=epochs,
        ),
    )


def decided(cluster: Cluster) -> PartitionImage:
    """Let the controller decide, once."""
    assert cluster.apply(elect_leaders(cluster.image, RULES))
    assert elect_leaders(cluster.image, RULES) == []
    return cluster.partition("t")


def assignment(partition: PartitionImage) -> tuple[Ids, Ids, Ids]:
    return partition.replicas, partition.adding, partition.removing


@pytest.mark.parametrize("min_isr", [1, 2, 3])
def test_a_cancellation_that_would_leave_too_few_replicas_in_sync_is_refused(min_isr: int) -> None:
    """The added replica has the records that were committed while another replica was down. Only an
    unclean election may lose them."""
    cluster = cluster_with((1, 2), own={"min.insync.replicas": str(min_isr)})
    moved(cluster, (2, 3))
    join(cluster, 1, 3)
    before = cluster.partition("t")
    if min_isr == 1:
        assert assignment(moved(cluster, None)) == ((2, 1), (), ())
        return
    with pytest.raises(Refused, match="only 1 of the replicas that stay are in sync") as refused:
        moved(cluster, None)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert cluster.partition("t") == before
    join(cluster, 1, 2, 3)
    assert assignment(moved(cluster, None)) == ((2, 1), (), ())


def test_a_replica_that_is_not_in_sync_is_removed_by_a_cancellation() -> None:
    cluster = cluster_with((1, 2), own={"min.insync.replicas": "2"})
    moved(cluster, (2, 3))
    join(cluster, 1)
    assert assignment(moved(cluster, None)) == ((2, 1), (), ())


def test_a_partition_moves_when_its_new_replica_is_in_sync() -> None:
    cluster = cluster_with((1, 2))
    found = moved(cluster, (2, 3))
    assert assignment(found) == ((2, 3, 1), (3,), (1,))
    assert (found.leader, found.leader_epoch, found.isr) == (1, 0, (1, 2))
    assert elect_leaders(cluster.image, RULES) == []
    join(cluster, 1, 2, 3)
    found = decided(cluster)
    assert assignment(found) == ((2, 3), (), ())
    assert (found.leader, found.leader_epoch, found.isr) == (2, 1, (2, 3))
    brokers = cluster.image.brokers
    assert found.isr_epochs == (brokers[2].epoch, brokers[3].epoch)


def test_the_leader_stays_in_a_new_leader_epoch_if_another_replica_is_removed() -> None:
    """Readers must stop fetching from the removed replica, and that replica must stop following."""
    cluster = cluster_with((1, 2))
    moved(cluster, (1, 3))
    join(cluster, 1, 2, 3)
    found = decided(cluster)
    assert (found.replicas, found.leader, found.leader_epoch) == ((1, 3), 1, 1)


def test_a_request_that_needs_no_new_replica_is_completed_at_once() -> None:
    cluster = cluster_with((1, 2, 3))
    found = moved(cluster, (3, 1, 2))
    assert (assignment(found), found.leader, found.leader_epoch) == (((3, 1, 2), (), ()), 1, 0)
    found = moved(cluster, (3, 2))
    assert (assignment(found), found.leader, found.leader_epoch) == (((3, 2), (), ()), 3, 1)
    assert found.isr == (2, 3)
    before = found.partition_epoch
    assert moved(cluster, (3, 2)).partition_epoch == before, "nothing has changed"


def test_fewer_replicas_wait_for_those_of_the_target() -> None:
    cluster = cluster_with((1, 2, 3), isr=(1, 3))
    found = moved(cluster, (1, 2))
    assert assignment(found) == ((1, 2, 3), (), (3,))
    assert elect_leaders(cluster.image, RULES) == []
    join(cluster, 1, 3, 2)
    assert assignment(decided(cluster)) == ((1, 2), (), ())


def test_the_controller_alone_completes_a_reassignment() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (2, 3))
    join(cluster, 1, 2, 3)
    stale = elect_leaders(cluster.image, RULES)
    record = records.encode(records.ControllerRecord(2))
    cluster.apply([Write((), (Delete(records.CONTROLLER),))])
    cluster.apply([Write((), (Put(records.CONTROLLER, record),))])
    assert not cluster.apply(stale)
    assert cluster.partition("t").replicas == (2, 3, 1)


def test_a_stale_request_changes_nothing() -> None:
    cluster = cluster_with((1, 2))
    writes = reassign_partitions(cluster.image, RULES, [PartitionTarget("t", 0, (2, 3))])[1]
    join(cluster, 1, 2)
    assert not cluster.apply(writes)
    # A reassignment that completes at once is stale if its new leader has registered again since.
    writes = reassign_partitions(cluster.image, RULES, [PartitionTarget("t", 0, (2,))])[1]
    cluster.restart(2)
    assert not cluster.apply(writes)


def test_a_replica_that_is_not_alive_or_has_lost_records_does_not_complete_a_reassignment() -> None:
    for ends in (True, False):
        cluster = cluster_with((1, 2))
        moved(cluster, (2, 3))
        join(cluster, 1, 2, 3)
        if ends:
            cluster.stop(3)
        else:
            cluster.restart(3)
        found = decided(cluster)
        assert (found.replicas, found.isr) == ((2, 3, 1), (1, 2))


def test_a_cancellation_returns_to_the_replicas_before() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (3, 4))
    join(cluster, 1, 2, 3)
    found = moved(cluster, None)
    assert (set(found.replicas), found.adding, found.removing) == ({1, 2}, (), ())
    assert (found.leader, found.leader_epoch, found.isr) == (1, 1, (1, 2))
    with pytest.raises(Refused) as refused:
        moved(cluster, None)
    assert (refused.value.code, refused.value.message) == (
        ErrorCode.NO_REASSIGNMENT_IN_PROGRESS,
        "",
    )


def test_a_cancellation_elects_a_leader_if_an_added_replica_led() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (3, 4))
    join(cluster, 3, 1)
    cluster.stop(1)
    join(cluster, 3, 2)
    found = moved(cluster, None)
    assert (found.leader, found.leader_epoch, found.isr) == (2, 1, (2,))


@pytest.mark.parametrize("unclean", [False, True])
def test_a_cancellation_never_leaves_an_empty_isr(unclean: bool) -> None:
    """Only a topic that allows unclean elections may lose records by a cancellation."""
    own = {"unclean.leader.election.enable": str(unclean).lower()}
    cluster = cluster_with((1, 2), own=own)
    moved(cluster, (3, 4))
    join(cluster, 3)
    if unclean:
        found = moved(cluster, None)
        assert (found.leader, found.isr, set(found.replicas)) == (1, (1,), {1, 2})
        return
    with pytest.raises(Refused) as refused:
        moved(cluster, None)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert refused.value.message == (
        "Unable to revert partition assignment for t:0 because it would require an unclean leader "
        "election."
    )


@pytest.mark.parametrize("unclean", [False, True])
def test_a_cancellation_keeps_a_draining_leader_that_no_other_replica_can_replace(
    unclean: bool,
) -> None:
    """The leader epoch increases, because a replica is removed."""
    own = {"unclean.leader.election.enable": str(unclean).lower()}
    cluster = cluster_with((1,), own=own)
    moved(cluster, (1, 3))
    before = cluster.partition("t")
    cluster.drain(1)
    found = moved(cluster, None)
    assert (found.replicas, found.leader, found.isr) == ((1,), 1, (1,))
    assert found.leader_epoch == before.leader_epoch + 1


def test_a_cancellation_needs_a_live_replica() -> None:
    """Otherwise a cancellation would make the partition unavailable."""
    cluster = cluster_with((1, 2))
    moved(cluster, (3, 4))
    join(cluster, 1, 3)
    cluster.stop(1)
    with pytest.raises(Refused) as refused:
        moved(cluster, None)
    assert refused.value.code is ErrorCode.INVALID_REPLICA_ASSIGNMENT
    assert decided(cluster).leader == 3


def test_a_cancellation_does_not_trust_a_single_replica_that_may_have_lost_records() -> None:
    """The added replica has every record, which the only old replica may not have."""
    cluster = cluster_with((1,))
    moved(cluster, (2, 3))
    join(cluster, 1, 2)
    cluster.restart(1)
    with pytest.raises(Refused):
        moved(cluster, None)


def test_the_only_replica_with_records_leads_whatever_it_has_lost() -> None:
    """The replica that is being added has no more records than the old one."""
    cluster = cluster_with((1,))
    moved(cluster, (2,))
    cluster.restart(1)
    found = decided(cluster)
    assert (found.leader, found.isr, found.replicas) == (1, (1,), (2, 1))


def test_an_unclean_election_takes_an_added_replica_last() -> None:
    """The added replica may be empty."""
    cluster = cluster_with((1, 2), own={"unclean.leader.election.enable": "true"})
    moved(cluster, (4, 2, 1))
    join(cluster, 1)
    cluster.stop(1)
    assert decided(cluster).leader == 2


def test_only_an_operator_elects_an_added_replica_that_may_be_empty() -> None:
    """The election of an added replica completes the move, and the old replica would then delete
    the only records."""
    cluster = cluster_with((1,), own={"unclean.leader.election.enable": "true"})
    cluster.stop(1)
    found = moved(cluster, (2,))
    assert (found.leader, assignment(found)) == (NO_LEADER, ((2, 1), (2,), (1,)))
    assert decided(cluster) == found
    elections = requested_elections(
        cluster.image, RULES, ElectionType.UNCLEAN, [TopicPartition("t", 0)]
    )
    assert cluster.apply(elections.writes)
    assert cluster.partition("t").leader == 2


def test_a_moving_partition_gets_another_leader_when_its_own_ends() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (2, 3))
    cluster.stop(1)
    found = decided(cluster)
    assert (found.leader, found.isr, found.leader_epoch) == (2, (2,), 1)
    join(cluster, 2, 3)
    found = decided(cluster)
    assert (found.leader, found.leader_epoch, assignment(found)) == (2, 2, ((2, 3), (), ()))


def test_an_election_from_the_elr_completes_a_reassignment_in_the_same_write() -> None:
    """The added replica was the last one in sync, and comes back."""
    cluster = cluster_with((1, 2))
    moved(cluster, (2, 3))
    join(cluster, 3)
    epoch = cluster.image.brokers[3].epoch
    cluster.stop(3)
    cluster.stop(2)
    found = decided(cluster)
    assert (found.leader, found.isr, found.elr, found.removing) == (NO_LEADER, (), (3,), (1,))
    cluster.register(3, clean_stop=epoch)
    found = decided(cluster)
    assert (found.leader, found.isr, found.elr) == (3, (3,), ())
    assert assignment(found) == ((2, 3), (), ())


REFUSED = (
    (("u", 0, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find a topic named u."),
    (("t", 7, (1,)), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:7."),
    (("t", -1, None), ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "Unable to find partition t:-1."),
    (
        ("t", 0, ()),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes an empty replica list.",
    ),
    (
        ("t", 0, (1, 9)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes broker 9, but no such broker is registered.",
    ),
    (
        ("t", 0, (1, 2, 1)),
        ErrorCode.INVALID_REPLICA_ASSIGNMENT,
        "The manual partition assignment includes the broker 1 more than once.",
    ),
)


@pytest.mark.parametrize(("target", "code", "message"), REFUSED)
def test_a_target_that_is_not_possible(
    target: tuple[str, int, Ids | None], code: ErrorCode, message: str
) -> None:
    cluster = cluster_with((1, 2))
    targets = [PartitionTarget(*target), PartitionTarget("t", 0, (2, 3))]
    (refused, other), writes = reassign_partitions(cluster.image, RULES, targets)
    assert refused is not None
    assert (refused.code, refused.message) == (code, message)
    assert other is None
    assert cluster.apply(writes)
    assert cluster.partition("t").adding == (3,)


def test_the_number_of_replicas_may_have_to_stay() -> None:
    """KIP-860. While a partition moves, its number of replicas is that of the target."""
    cluster = cluster_with((1, 2))
    for target, count in (((1,), 1), ((1, 2, 3), 3)):
        with pytest.raises(Refused) as refused:
            moved(cluster, target, may_change_factor=False)
        assert refused.value.code is ErrorCode.INVALID_REPLICATION_FACTOR
        message = f"The replication factor is changed from 2 to {count}"
        assert refused.value.message == message
    moved(cluster, (3, 4), may_change_factor=False)
    moved(cluster, (4, 5), may_change_factor=False)
    with pytest.raises(Refused):
        moved(cluster, (1, 2, 3, 4), may_change_factor=False)


def test_of_two_targets_of_a_partition_the_last_one_holds() -> None:
    cluster = cluster_with((1, 2))
    targets = [PartitionTarget("t", 0, replicas) for replicas in ((2, 3), (2, 4))]
    outcomes, writes = reassign_partitions(cluster.image, RULES, targets)
    assert outcomes == [None, None]
    assert cluster.apply(writes)
    assert cluster.partition("t").adding == (4,)


def test_many_partitions_are_moved_in_one_transaction() -> None:
    cluster = Cluster(range(1, 70))
    cluster.create("t", MAX_REASSIGNED_AT_ONCE, 1)
    leaders = [found.leader for found in cluster.image.topics["t"].partitions]
    targets = [
        PartitionTarget("t", number, (leader % 69 + 1, leader))
        for number, leader in enumerate(leaders)
    ]
    _, writes = reassign_partitions(cluster.image, RULES, targets)
    assert len(writes) == 1
    assert cluster.apply(writes)
    moves = [PartitionTarget("t", number, (leader,)) for number, leader in enumerate(leaders)]
    _, writes = reassign_partitions(cluster.image, RULES, moves)
    assert len(writes) == 1, "each has its own leader, in a new epoch"
    assert cluster.apply(writes)
    assert all(not found.is_reassigning for found in cluster.image.topics["t"].partitions)


def test_new_partitions_get_the_number_of_replicas_of_the_target() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (2, 3))
    assert cluster.image.topics["t"].replication_factor == 2
    cluster.apply(create_partitions(cluster.image, Settings(), NewPartitions("t", 2, None)))
    assert len(cluster.partition("t", 1).replicas) == 2
    assert cluster.partition("t").adding == (3,)


def test_a_topic_that_moves_is_deleted_whole() -> None:
    cluster = cluster_with((1, 2))
    moved(cluster, (2, 3))
    stale = reassign_partitions(cluster.image, RULES, [PartitionTarget("t", 0, (2, 4))])[1]
    cluster.apply(delete_topics(cluster.image, Settings(), ["t"])[0])
    assert not cluster.apply(stale)
    assert not cluster.image.orphans()
    assert cluster.image.topics == {}
    assert NO_LEADER not in cluster.image.brokers
