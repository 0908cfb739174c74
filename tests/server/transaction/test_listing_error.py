"""A broker that does not know all its transactional ids responds to ListTransactions with an error.
Without the error, a tool would take a transaction of a missing id for a hanging one."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage, PartitionImage, TopicImage
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.partition.registry import Partitions
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.listing_error import listing_error
from tests.server.transaction.world import TXN_LOG, World

HERE, OTHER, NO_LEADER = 1, 2, -1
SECOND = TopicPartition(TRANSACTION_STATE, 1)


def image(*leaders: int) -> ClusterImage:
    rows = tuple(
        PartitionImage(bytes(16), index, (HERE, OTHER), (HERE,), leader, 0, 1)
        for index, leader in enumerate(leaders)
    )
    topic = TopicImage(TRANSACTION_STATE, bytes(16), "", {}, rows, revision=1)
    return ClusterImage(topics={TRANSACTION_STATE: topic})


def listing_error_of(world: World, cluster: ClusterImage, partitions: Partitions) -> ErrorCode:
    return listing_error(cluster, HERE, partitions, world.transactions.runtime)


@pytest.mark.parametrize(
    ("leaders", "code"),
    [
        pytest.param((HERE,), ErrorCode.NONE, id="all are in service"),
        pytest.param((HERE, OTHER), ErrorCode.NONE, id="another broker lists its own ids"),
        pytest.param((HERE, NO_LEADER), ErrorCode.COORDINATOR_NOT_AVAILABLE, id="no leader"),
        pytest.param((HERE, HERE), ErrorCode.COORDINATOR_NOT_AVAILABLE, id="offline here"),
    ],
)
def test_the_list_is_an_error_if_a_shard_is_unavailable(
    leaders: tuple[int, ...], code: ErrorCode
) -> None:
    world, partitions = World(), Partitions()
    partitions.add(world.partitions[TXN_LOG])
    partitions.add_offline(SECOND, "a corrupt batch")
    assert listing_error_of(world, image(*leaders), partitions) is code


def test_before_the_internal_topic_is_created_the_list_has_no_error() -> None:
    assert listing_error_of(World(), ClusterImage(), Partitions()) is ErrorCode.NONE


def test_the_list_is_an_error_while_a_partition_is_being_opened() -> None:
    world, partitions = World(), Partitions()
    partitions.add(world.partitions[TXN_LOG])
    assert (
        listing_error_of(world, image(HERE, HERE), partitions)
        is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )


def test_S14_the_list_is_an_error_if_a_shard_could_not_be_loaded() -> None:
    before = World()
    before.init("t1")
    world, partitions = World(before.files.after_kill(), leader_epoch=1, leads=False), Partitions()
    partitions.add(world.partitions[TXN_LOG])
    world.files.fail_reads("__transaction_state-0/")
    with pytest.raises(ValueError, match="offset"):
        world.transactions.lead(world.partitions[TXN_LOG])
    assert listing_error_of(world, image(HERE), partitions) is ErrorCode.COORDINATOR_NOT_AVAILABLE


def test_the_list_is_an_error_while_a_shard_is_being_loaded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world, partitions = World(leads=False), Partitions()
    partitions.add(world.partitions[TXN_LOG])
    monkeypatch.setattr(world.transactions.runtime, "_work", lambda steps: None)  # between slices
    world.transactions.lead(world.partitions[TXN_LOG])
    assert world.transactions.runtime.is_loading
    assert (
        listing_error_of(world, image(HERE), partitions) is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    )
