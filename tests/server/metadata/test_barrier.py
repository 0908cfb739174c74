"""A broker decides each administrative request from an image that has all earlier changes, even
changes by other brokers that its watch has not shown yet."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

import msgspec
import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.security.scram_credential import ScramMechanism
from oncelog_server.cluster import records
from oncelog_server.cluster.feature_changes import FeatureUpdate, UpgradeType, update_features
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_additions import NewPartitions
from oncelog_server.cluster.quota_changes import QuotaAlteration
from oncelog_server.cluster.reassignment_changes import PartitionTarget
from oncelog_server.cluster.requested_elections import ElectionType
from oncelog_server.cluster.scram_changes import ScramDeletion, ScramUpsertion
from oncelog_server.cluster.store import LeaseEnded, Put, UnknownOutcome, Write
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.metadata import barrier
from oncelog_server.metadata.barrier import Barrier
from oncelog_server.metadata.cluster_metadata import ClusterMetadata
from oncelog_server.metadata.founding import SUPPORTED_FEATURES
from oncelog_server.quotas.entities import entity_of
from oncelog_server.refusal import Refused
from oncelog_server.security.acls import Acl, Pattern, PatternType, Permission
from oncelog_server.security.resources import Operation, ResourceType
from oncelog_server.settings.model import Settings
from oncelog_server.topic_partition import TopicPartition
from tests.server.metadata.brokers import Brokers, endpoints, until
from tests.server.metadata.memory_store import MemoryStore
from tests.server.metadata.view import View

DEADLINE_S = 30
MECHANISM = ScramMechanism.SCRAM_SHA_256
RULE = (
    Pattern(ResourceType.TOPIC, "t", PatternType.LITERAL),
    Acl("User:a", "*", Operation.READ, Permission.ALLOW),
)
ALICE = entity_of([("user", "alice")])
NAME = TopicPartition("t", 0)
STORE_FAILURES = (OSError("no response"), UnknownOutcome("no response"), LeaseEnded("lease 1"))


class Cluster(NamedTuple):
    """Three brokers. The test delays the watch of the second, which reaches the store by `view`."""

    brokers: Brokers
    first: ClusterMetadata
    second: ClusterMetadata
    third: ClusterMetadata
    view: View

    async def have_seen_all(self) -> None:
        revision = self.brokers.store.feed.revision
        for metadata in (self.first, self.second, self.third):
            await metadata.follower.reached(revision)


@pytest.fixture
async def cluster() -> AsyncIterator[Cluster]:
    brokers = Brokers()
    view = View(brokers.store)
    first, second, third = [
        await brokers.start(number, store=view if number == 2 else None) for number in (1, 2, 3)
    ]
    made = Cluster(brokers, first, second, third, view)
    await made.have_seen_all()
    yield made
    view.watches.set()
    view.responds.set()
    await brokers.stop()


# --- the requests


async def new_topic(metadata: ClusterMetadata, name: str = "t", validate_only: bool = False) -> Any:
    new = NewTopic(name, assignments=((0, (1, 2)),))
    return await metadata.create_topics([new], validate_only=validate_only)


async def set_retention(metadata: ClusterMetadata, value: str) -> Any:
    await metadata.alter_topic_settings("t", lambda own: {**own, "retention.ms": value})
    return metadata.image.topics["t"].settings


async def set_defaults(metadata: ClusterMetadata, value: str) -> Any:
    await metadata.alter_broker_settings("", lambda own: {"log.retention.ms": value})
    return metadata.image.broker_config("").settings


async def set_quota(metadata: ClusterMetadata, limit: float) -> Any:
    await metadata.users.alter_quotas([QuotaAlteration(ALICE, [("producer_byte_rate", limit)])])
    return metadata.image.quotas[ALICE]


async def set_version(metadata: ClusterMetadata, level: int) -> Any:
    updates = [FeatureUpdate("transaction.version", level, UpgradeType.UNSAFE_DOWNGRADE)]

    def decide(image: ClusterImage) -> list[Write]:
        return update_features(image, 1, SUPPORTED_FEATURES, updates)

    await metadata.write(decide)
    return metadata.image.features["transaction.version"]


async def new_rule(metadata: ClusterMetadata) -> Any:
    await metadata.users.create_acls([RULE])
    return dict(metadata.image.acls)


async def new_user(metadata: ClusterMetadata) -> Any:
    upsertion = ScramUpsertion("alice", MECHANISM, 4096, b"salt", bytes(32))
    return await metadata.users.alter_scram_credentials([], [upsertion])


async def move(metadata: ClusterMetadata, *replicas: int) -> Any:
    return await metadata.reassign_partitions([PartitionTarget("t", 0, replicas or None)])


async def elect(metadata: ClusterMetadata) -> Any:
    outcomes = await metadata.elect_leaders(ElectionType.PREFERRED, [NAME], ())
    return outcomes, metadata.image.topics["t"].partitions[0].leader


class Case(NamedTuple):
    """`change` is made at the first broker before `request` arrives at the second one. All brokers
    have seen `before`. `outcome` is that of the request."""

    name: str
    before: Callable[[Cluster], Awaitable[object]]
    change: Callable[[Cluster], Awaitable[object]]
    request: Callable[[ClusterMetadata], Awaitable[Any]]
    outcome: Any


async def nothing(cluster: Cluster) -> None:
    pass


async def topic(cluster: Cluster) -> None:
    await new_topic(cluster.first)


async def topic_led_by_2(cluster: Cluster, isr: tuple[int, ...] = (2,)) -> None:
    if "t" not in cluster.first.image.topics:
        await topic(cluster)
    image = cluster.first.image
    epochs = tuple(image.brokers[number].epoch for number in isr)
    record = records.PartitionRecord((1, 2), isr, 2, 1, isr_epochs=epochs)
    key = records.partition_key(image.topics["t"].id_text, 0)
    cluster.brokers.store.apply([Put(key, records.encode(record))])


async def dies(cluster: Cluster, metadata: ClusterMetadata) -> None:
    cluster.brokers.kill(metadata)
    await cluster.brokers.store.revoke_lease(metadata.membership.lease_id)


CASES = [
    Case("delete", nothing, topic, lambda b: b.delete_topics(["t"]), [None]),
    Case(
        "create after a deletion",
        topic,
        lambda c: c.first.delete_topics(["t"]),
        lambda b: new_topic(b),
        "created",
    ),
    Case(
        "only validate a creation",
        nothing,
        topic,
        lambda b: new_topic(b, validate_only=True),
        ErrorCode.TOPIC_ALREADY_EXISTS,
    ),
    Case(
        "create a colliding name",
        nothing,
        lambda c: new_topic(c.first, "a.b"),
        lambda b: new_topic(b, "a_b"),
        ErrorCode.INVALID_TOPIC_EXCEPTION,
    ),
    Case(
        "add partitions",
        nothing,
        topic,
        lambda b: b.create_partitions([NewPartitions("t", 3)]),
        [None],
    ),
    Case(
        "set a new topic",
        nothing,
        topic,
        lambda b: set_retention(b, "1000"),
        {"retention.ms": "1000"},
    ),
    Case(
        "set the former value",
        lambda c: _in_turn(topic(c), set_retention(c.first, "1000")),
        lambda c: set_retention(c.first, "2000"),
        lambda b: set_retention(b, "1000"),
        {"retention.ms": "1000"},
    ),
    Case(
        "set the former value of brokers",
        lambda c: set_defaults(c.first, "1000"),
        lambda c: set_defaults(c.first, "2000"),
        lambda b: set_defaults(b, "1000"),
        {"log.retention.ms": "1000"},
    ),
    Case(
        "elect: the preferred leader has joined the ISR",
        topic_led_by_2,
        lambda c: topic_led_by_2(c, (1, 2)),
        elect,
        ({NAME: None}, 1),
    ),
    Case(
        "elect: the preferred leader has lost the leadership",
        topic,
        lambda c: topic_led_by_2(c, (1, 2)),
        elect,
        ({NAME: None}, 1),
    ),
    Case("move a new topic", nothing, topic, lambda b: move(b, 1, 3), [None]),
    Case("cancel a new move", topic, lambda c: move(c.first, 1, 3), lambda b: move(b), [None]),
    Case(
        "delete a new user",
        nothing,
        lambda c: new_user(c.first),
        lambda b: b.users.alter_scram_credentials([ScramDeletion("alice", MECHANISM)], []),
        {"alice": None},
    ),
    Case(
        "set the former quota",
        lambda c: set_quota(c.first, 1.0),
        lambda c: set_quota(c.first, 2.0),
        lambda b: set_quota(b, 1.0),
        {"producer_byte_rate": 1.0},
    ),
    Case(
        "add a rule after its deletion",
        lambda c: new_rule(c.first),
        lambda c: c.first.users.delete_acls([[RULE]]),
        new_rule,
        {RULE[0]: (RULE[1],)},
    ),
    Case(
        "set the former level of a feature",
        lambda c: set_version(c.first, 2),
        lambda c: set_version(c.first, 1),
        lambda b: set_version(b, 2),
        2,
    ),
    Case(
        "unregister a dead broker",
        nothing,
        lambda c: dies(c, c.third),
        lambda b: b.unregister_broker(3),
        None,
    ),
]


async def _in_turn(*steps: Awaitable[object]) -> None:
    for step in steps:
        await step


def summary(outcome: Any) -> Any:
    if isinstance(outcome, Refused):
        return outcome.code
    created = isinstance(outcome, list) and outcome[0] is not None
    if created and not isinstance(outcome[0], Refused):
        return "created"
    return outcome[0].code if created else outcome


@pytest.mark.parametrize("is_late", [True, False], ids=["late watch", "watch in time"])
@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
async def test_a_request_is_decided_with_the_changes_that_the_watch_has_not_shown(
    cluster: Cluster, case: Case, is_late: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not is_late:
        monkeypatch.setattr(barrier, "WATCH_S", DEADLINE_S)
    await case.before(cluster)
    await cluster.have_seen_all()
    cluster.view.watches.clear()
    await case.change(cluster)
    reads = cluster.view.reads
    task = asyncio.ensure_future(case.request(cluster.second))
    await until(
        lambda: (
            task.done() or (cluster.view.barriers > 0 if is_late else cluster.view.reads > reads)
        )
    )
    cluster.view.watches.set()
    assert summary(await task) == case.outcome
    assert (cluster.view.barriers > 0) is is_late


# --- a store that fails


@pytest.mark.parametrize(
    "failure",
    ["read", "hangs", "watch", *range(len(STORE_FAILURES))],
)
async def test_a_request_ends_with_an_error_that_clients_retry_if_the_store_fails(
    cluster: Cluster, failure: str | int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(barrier, "LIMIT_S", 0.1)
    cluster.view.watches.clear()
    await new_topic(cluster.first)
    if failure == "read":
        cluster.view.read_error = OSError("no response")
    elif failure == "hangs":
        cluster.view.responds.clear()
    elif isinstance(failure, int):
        cluster.view.barrier_error = STORE_FAILURES[failure]
    async with asyncio.timeout(DEADLINE_S):
        deleted = await cluster.second.delete_topics(["t"])
        elected = await cluster.second.elect_leaders(ElectionType.PREFERRED, [NAME], ())
        again = await new_topic(cluster.second)
    refusals = [*deleted, *elected.values(), *again]
    assert {found.code for found in refusals if found} == {ErrorCode.REQUEST_TIMED_OUT}
    assert "t" in cluster.first.image.topics


async def test_a_broker_that_follows_the_store_no_more_refuses_for_a_retry(
    cluster: Cluster,
) -> None:
    await cluster.second.follower.stop()
    (refused,) = await cluster.second.delete_topics(["t"])
    assert refused is not None
    assert refused.code is ErrorCode.REQUEST_TIMED_OUT


# --- the cost


async def test_refused_requests_cost_no_write_while_nothing_changes(cluster: Cluster) -> None:
    revision = cluster.brokers.store.feed.revision
    for _ in range(20):
        (refused,) = await cluster.second.delete_topics(["t"])
        assert refused is not None
        assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert cluster.brokers.store.feed.revision == revision


async def test_calls_share_a_barrier_that_begins_after_them(cluster: Cluster) -> None:
    """The read of a barrier in progress may be older than a change before the next call."""
    follower, view = cluster.second.follower, cluster.view
    shared = Barrier(view, follower, 2, lambda: 0)
    before = view.reads
    view.responds.clear()
    first = asyncio.create_task(shared.wait())
    await until(lambda: view.reads == before + 1)
    view.watches.clear()
    await new_topic(cluster.first)
    others = [asyncio.create_task(shared.wait()) for _ in range(50)]
    view.responds.set()
    await first
    await until(lambda: view.barriers == 1)
    assert not any(other.done() for other in others)
    view.watches.set()
    await asyncio.gather(*others)
    assert "t" in follower.image.topics
    assert (view.reads, view.barriers) == (before + 2, 1)


async def test_a_cancelled_call_does_not_stop_the_others(cluster: Cluster) -> None:
    shared = Barrier(cluster.view, cluster.second.follower, 2, lambda: 0)
    cluster.view.responds.clear()
    cancelled, *others = [asyncio.create_task(shared.wait()) for _ in range(3)]
    reads = cluster.view.reads
    await until(lambda: cluster.view.reads > reads)
    cancelled.cancel()
    cluster.view.responds.set()
    await asyncio.gather(*others)
    assert cancelled.cancelled()


async def test_changes_of_foreign_keys_end_no_barrier_late(cluster: Cluster) -> None:
    """No watch shows the revisions of foreign keys, so the barrier writes a key of its own."""
    cluster.view.foreign = 1_000_000
    before = cluster.second.image
    assert await cluster.second.catch_up() is None
    assert cluster.view.barriers == 1
    assert cluster.second.image == msgspec.structs.replace(
        before, revision=cluster.second.image.revision
    ), "the image ignores the key"


async def test_the_key_ends_with_the_broker(cluster: Cluster) -> None:
    cluster.view.foreign = 1_000_000
    assert await cluster.second.catch_up() is None
    assert records.barrier_key(2) in cluster.brokers.store.entries
    await cluster.brokers.store.revoke_lease(cluster.second.membership.lease_id)
    assert records.barrier_key(2) not in cluster.brokers.store.entries


async def test_a_broker_without_others_never_asks_the_store() -> None:
    view = View(MemoryStore())
    metadata = ClusterMetadata(view, Settings(node_id=1).running())
    await metadata.start(endpoints(1))
    reads = view.reads
    (refused,) = await metadata.delete_topics(["t"])
    assert refused is not None
    assert refused.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert not metadata.may_be_stale
    assert view.reads == reads
    await metadata.stop()


async def test_an_automatic_creation_does_not_wait(cluster: Cluster) -> None:
    """Metadata must be quick, and its clients retry."""
    cluster.view.read_error = OSError("no response")
    assert await cluster.second.missing_topics.create(["t"]) == {}


async def test_the_controller_does_not_wait(cluster: Cluster) -> None:
    """The controller decides again at each image."""
    await new_topic(cluster.first)
    await cluster.have_seen_all()
    cluster.view.read_error = OSError("no response")
    for metadata in (cluster.third, cluster.first):
        await dies(cluster, metadata)
    await until(lambda: cluster.second.image.controller_id == 2)
    await until(lambda: cluster.second.image.topics["t"].partitions[0].leader != 1)
    assert cluster.second.image.topics["t"].partitions[0].leader == 2
