"""ElectLeaders on the metadata of several brokers: any of them serves it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

import pytest
import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.requested_elections import ElectionType
from oncelog_server.cluster.store import Compare, Put, TxnResult, WriteOperation
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata import elections
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.topic_partition import TopicPartition
from tests.server.metadata.brokers import Brokers, until
from tests.server.metadata.memory_store import MemoryStore

PARTITIONS = 250
WANTED = [TopicPartition("t", number) for number in range(PARTITIONS)]
PREFERRED = ElectionType.PREFERRED


class MeddledStore(MemoryStore):
    """A store in which another broker elects a leader just before one of the transactions."""

    meddles_at = -1

    async def txn(
        self, compare: Sequence[Compare], operations: Sequence[WriteOperation]
    ) -> TxnResult:
        if len(operations) > 1 and operations[0].key.startswith(records.PARTITIONS):
            self.meddles_at -= 1
            if self.meddles_at == 0:
                self.apply(operations[:1])
        return await super().txn(compare, operations)


@pytest.fixture
async def brokers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Brokers]:
    monkeypatch.setattr(elections, "PAUSE_S", 0)
    clock = Brokers().clock
    brokers = Brokers(MeddledStore(now_ms=clock), clock)
    yield brokers
    await brokers.stop()


async def imbalanced(brokers: Brokers) -> list[ClusterMetadata]:
    """Return two brokers. The second leads all partitions, and the first is in every ISR."""
    started = [await brokers.start(number) for number in (1, 2)]
    await until(lambda: all(set(found.image.brokers) == {1, 2} for found in started))
    image = started[0].image
    epochs = tuple(image.brokers[number].epoch for number in (1, 2))
    assignments = tuple((number, (1, 2)) for number in range(PARTITIONS))
    await started[0].create_topics([NewTopic("t", assignments=assignments)])
    id_text = started[0].image.topics["t"].id_text
    record = records.encode(records.PartitionRecord((1, 2), (1, 2), 2, 1, isr_epochs=epochs))
    for number in range(PARTITIONS):
        brokers.store.apply([Put(records.partition_key(id_text, number), record)])
    await until(lambda: all(led(found) == {2} for found in started))
    return started


def led(metadata: ClusterMetadata) -> set[int]:
    topic = metadata.image.topics.get("t")
    return set() if topic is None else {partition.leader for partition in topic.partitions}


@pytest.mark.parametrize("meddles_at", [-1, 1, 2, 3])
async def test_any_broker_elects_all_leaders_also_if_partitions_change_meanwhile(
    brokers: Brokers, meddles_at: int
) -> None:
    _, second = await imbalanced(brokers)
    assert isinstance(brokers.store, MeddledStore)
    brokers.store.meddles_at = meddles_at
    outcomes = await second.elect_leaders(PREFERRED, WANTED, ())
    assert set(outcomes.values()) == {None}
    assert led(second) == {1}
    again = await second.elect_leaders(PREFERRED, WANTED, ())
    assert {outcome.code for outcome in again.values() if outcome} == {
        ErrorCode.ELECTION_NOT_NEEDED
    }


async def test_a_replica_that_is_in_sync_again_is_elected_by_a_broker_that_did_not_know_it(
    brokers: Brokers,
) -> None:
    """This happens after a restart: a tool has seen the ISR at another broker, which has a newer
    image."""
    _, second = await imbalanced(brokers)
    topic = second.image.topics["t"]
    whole = brokers.store.entries[records.partition_key(topic.id_text, 0)].value
    alone = records.PartitionRecord((1, 2), (2,), 2, 1, isr_epochs=(second.image.brokers[2].epoch,))
    brokers.store.apply([Put(records.partition_key(topic.id_text, 0), records.encode(alone))])
    await until(lambda: second.image.topics["t"].partitions[0].isr == (2,))
    refused = await second.elect_leaders(PREFERRED, WANTED[:1], ())
    assert [outcome.code for outcome in refused.values() if outcome] == [
        ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    ]
    brokers.store.apply([Put(records.partition_key(topic.id_text, 0), whole)])
    assert second.image.topics["t"].partitions[0].isr == (2,), "the image is stale"
    assert await second.elect_leaders(PREFERRED, WANTED[:1], ()) == {WANTED[0]: None}


async def test_an_unclean_election_is_logged(brokers: Brokers) -> None:
    first, second = await imbalanced(brokers)
    brokers.kill(second)
    # Broker 2 had every partition alone, and dies.
    id_text = first.image.topics["t"].id_text
    record = records.PartitionRecord((1, 2), (), -1, 2, elr=(2,), last_known_elr=(2,))
    brokers.store.apply([Put(records.partition_key(id_text, 0), records.encode(record))])
    await brokers.store.revoke_lease(second.membership.lease_id)
    await until(
        lambda: 2 not in first.image.brokers and first.image.topics["t"].partitions[0].leader == -1
    )
    with structlog.testing.capture_logs() as events:
        outcomes = await first.elect_leaders(ElectionType.UNCLEAN, WANTED[:2], ())
    assert outcomes[WANTED[0]] is None
    (unclean,) = [event for event in events if event["log_level"] == "warning"]
    assert (unclean["partitions"], unclean["some"]) == (1, ["t-0"])


async def test_a_failed_store_is_the_outcome_of_the_elections_that_are_left(
    brokers: Brokers,
) -> None:
    _, second = await imbalanced(brokers)
    brokers.store.is_full = True
    outcomes = await second.elect_leaders(PREFERRED, [*WANTED, TopicPartition("u", 0)], ())
    assert outcomes[TopicPartition("u", 0)] is not None
    assert {outcome.code for name in WANTED if (outcome := outcomes[name])} == {
        ErrorCode.KAFKA_STORAGE_ERROR
    }
    assert led(second) == {2}
