"""A sink with exactly the rights of its recipe, and without each of them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable
from typing import Final

import pytest

from oncelog_client import Admin, KafkaError, NewTopic
from oncelog_client.core.acl_bindings import AclOperation
from oncelog_client.spark.settings.rights import Right
from oncelog_client.spark.sink import driver, record_commit
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent
from oncelog_client.spark.sink.protocol.record_log import STATE_TOPIC_CONFIGS
from oncelog_client.spark.sink.protocol.refusals import SinkError
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.sink.protocol.state_topic import STATE_TOPIC
from tests.spark.guarded import GuardedOncelog
from tests.spark.rights.queries import QUERY, Sink
from tests.spark.topics import Topics

_TOO_LONG: Final = "1000000000"


def recipe(name: str, kind: CommitKind) -> list[Right]:
    return list(sink_rights(name, [name], kind))


def needed(name: str, kind: CommitKind) -> list[Right]:
    return [right for right in recipe(name, kind) if not right.is_optional]


@pytest.fixture
def state_topic(guarded: GuardedOncelog) -> None:
    """The topic with the state of sinks that commit by record."""
    asyncio.run(_make_state_topic(guarded.address))


async def _make_state_topic(address: str) -> None:
    async with Admin(address) as admin:
        if STATE_TOPIC not in await admin.list_topics():
            await admin.create_topics([NewTopic(STATE_TOPIC, 1, configs=STATE_TOPIC_CONFIGS)])


def sink_of(guarded: GuardedOncelog, name: str, kind: CommitKind, rights: Iterable[Right]) -> Sink:
    """Return a sink with a new topic and a user with these rights."""
    Topics(guarded.address).create(name, partitions=1)
    return Sink(name, kind, guarded.user(f"user-of-{name}", rights))


@pytest.mark.usefixtures("state_topic")
@pytest.mark.parametrize("kind", CommitKind)
def test_exactly_the_needed_rights_are_enough_also_after_an_abort_and_a_restart(
    guarded: GuardedOncelog, name: str, kind: CommitKind
) -> None:
    sink = sink_of(guarded, name, kind, needed(name, kind))
    sink.write(0)
    sink.abort(sink.write(1, commits=False), 1)
    # The next process finds the open transactions of this one, and aborts them.
    sink.write(1, commits=False)
    driver._generations.clear()
    sink.write(1)
    assert Topics(guarded.address).decided_values(name) == [b"0/0", b"0/1", b"1/0", b"1/1"]


# The kind of the commit, the number of a right in the recipe, and True if the user has only
# DESCRIBE in place of the right, which implies DESCRIBE.
CASES: Final = [
    (kind, number, describes)
    for kind in CommitKind
    for number, right in enumerate(needed("any", kind))
    for describes in (False, True)
    if not describes or right.operation in (AclOperation.READ, AclOperation.WRITE)
]


@pytest.mark.usefixtures("state_topic")
@pytest.mark.parametrize(("kind", "number", "describes"), CASES)
def test_without_a_needed_right_nothing_is_written_and_the_error_names_the_right(
    guarded: GuardedOncelog, name: str, kind: CommitKind, number: int, describes: bool
) -> None:
    rights = needed(name, kind)
    missing = rights.pop(number)
    if describes:
        rights.append(missing._replace(operation=AclOperation.DESCRIBE))
    sink = sink_of(guarded, name, kind, rights)
    with pytest.raises((SinkError, KafkaError), match="AUTHORIZATION_FAILED") as refused:
        sink.write(0)
    assert str(missing) in str(refused.value)
    assert missing.name in str(refused.value).partition("the principal needs")[0]
    assert Topics(guarded.address).values(name, committed=False) == []


@pytest.mark.parametrize("allowed", [True, False])
def test_a_too_long_timeout_is_refused_early_only_with_the_right_to_read_the_limit(
    guarded: GuardedOncelog, name: str, allowed: bool
) -> None:
    kind = CommitKind.GROUP
    rights = recipe(name, kind) if allowed else needed(name, kind)
    options = sink_of(guarded, name, kind, rights).having(kafka_transaction_timeout_ms=_TOO_LONG)
    reason = "transaction.max.timeout.ms" if allowed else "INVALID_TRANSACTION_TIMEOUT"
    with pytest.raises(SinkError, match=reason):
        driver.plan(options, Intent(name, kind, QUERY))


@pytest.mark.parametrize("allowed", [True, False])
def test_a_missing_state_topic_is_created_only_with_the_right_to_create_it(
    guarded: GuardedOncelog, name: str, allowed: bool
) -> None:
    kind = CommitKind.RECORD
    asyncio.run(_delete_state_topic(guarded.address))
    sink = sink_of(guarded, name, kind, recipe(name, kind) if allowed else needed(name, kind))
    if allowed:
        sink.write(0)
        return
    with pytest.raises(SinkError, match=f"needs CREATE on topic {STATE_TOPIC}"):
        sink.write(0)
    assert Topics(guarded.address).values(name, committed=False) == []


async def _delete_state_topic(address: str) -> None:
    async with Admin(address) as admin:
        if STATE_TOPIC in await admin.list_topics():
            await admin.delete_topics([STATE_TOPIC])


@pytest.mark.usefixtures("state_topic")
@pytest.mark.parametrize("allowed", [True, False])
def test_decided_transactions_have_a_timeout_without_the_right_to_two_phase_commit(
    guarded: GuardedOncelog, name: str, allowed: bool, caplog: pytest.LogCaptureFixture
) -> None:
    kind = CommitKind.RECORD
    sink = sink_of(guarded, name, kind, recipe(name, kind) if allowed else needed(name, kind))
    with caplog.at_level(logging.WARNING):
        sink.write(0)
    assert record_commit._two_phase[sink.having().admin] is allowed
    assert ("the broker has no two-phase commit" in caplog.text) is not allowed
