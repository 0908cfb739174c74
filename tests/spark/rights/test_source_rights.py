"""A source with exactly the rights of its recipe, and without each of them."""

from __future__ import annotations

import asyncio
import json
import logging

import pytest

from oncelog_client import Admin, KafkaError, TopicPartition
from oncelog_client.core.acl_bindings import AclOperation
from oncelog_client.spark.sink.protocol.messages import CommitKind
from oncelog_client.spark.sink.protocol.sink_rights import sink_rights
from oncelog_client.spark.source.plan.source_rights import source_rights
from tests.spark.guarded import GuardedOncelog
from tests.spark.rights.queries import Sink, read_batch, read_stream
from tests.spark.topics import Topics

ROWS = [b"a", b"b"]


@pytest.fixture
def words(guarded: GuardedOncelog, name: str) -> str:
    """A topic with ROWS in one partition."""
    topics = Topics(guarded.address)
    topics.create(name, partitions=1)
    topics.append(name, ROWS)
    return name


def committed(guarded: GuardedOncelog, group: str, topic: str) -> int | None:
    """Return the offset of a group in partition 0, or None."""

    async def asked() -> int | None:
        async with Admin(guarded.address) as admin:
            found = await admin.list_group_offsets(group)
        offset = found.get(TopicPartition(topic, 0))
        return None if offset is None else offset.offset

    return asyncio.run(asked())


def test_exactly_the_rights_of_the_recipe_are_enough(guarded: GuardedOncelog, words: str) -> None:
    user = guarded.user(f"user-of-{words}", source_rights([words], group=f"{words}-lag"))
    assert read_batch(user, words) == ROWS
    assert read_stream(user, words, f"{words}-lag") == ROWS
    assert committed(guarded, f"{words}-lag", words) == len(ROWS)


@pytest.mark.parametrize("operations", [(), (AclOperation.DESCRIBE,)])
def test_without_the_right_to_read_the_error_names_it(
    guarded: GuardedOncelog, words: str, operations: tuple[AclOperation, ...]
) -> None:
    """With DESCRIBE the query is planned, and its tasks fail."""
    (read,) = source_rights([words])
    rights = [read._replace(operation=operation) for operation in operations]
    user = guarded.user(f"user-of-{words}", rights)
    expected = f"TOPIC_AUTHORIZATION_FAILED: {words}.*: the principal needs {read}"
    with pytest.raises(KafkaError, match=expected):
        read_batch(user, words)
    with pytest.raises(KafkaError, match=expected):
        read_stream(user, words)


def test_without_the_right_to_the_group_the_source_warns_and_reads(
    guarded: GuardedOncelog, words: str, caplog: pytest.LogCaptureFixture
) -> None:
    group = f"{words}-lag"
    read, of_group = source_rights([words], group=group)
    assert of_group.is_optional
    user = guarded.user(f"user-of-{words}", [read])
    with caplog.at_level(logging.WARNING):
        assert read_stream(user, words, group) == ROWS
    refused = f"GROUP_AUTHORIZATION_FAILED: {group}: the principal needs {of_group}"
    assert f"commitOffsetsToGroup={group}: not committed: {refused}" in caplog.text
    assert committed(guarded, group, words) is None


@pytest.mark.parametrize("kind", CommitKind)
def test_a_start_at_a_sink_needs_the_rights_of_the_recipe_and_each_of_them(
    guarded: GuardedOncelog, words: str, kind: CommitKind
) -> None:
    sink_id = f"{words}-sink"
    Topics(guarded.address).create(sink_id, partitions=1)
    sink = Sink(sink_id, kind, guarded.user(sink_id, sink_rights(sink_id, [sink_id], kind)))
    sink.write(0, source_end=json.dumps({words: {"0": 1}}))
    rights = source_rights([words], sink_id=sink_id)
    reader = guarded.user(f"all-{words}", rights)
    assert read_stream(reader, words, start=f"sink:{sink_id}") == ROWS[1:]
    # The state topic is looked at only if the sink has no state in a group.
    needed = rights if kind is CommitKind.RECORD else rights[:-1]
    for number, missing in enumerate(needed):
        left = [*needed[:number], *needed[number + 1 :]]
        user = guarded.user(f"{number}-{words}", left)
        with pytest.raises(KafkaError, match="AUTHORIZATION_FAILED") as refused:
            read_stream(user, words, start=f"sink:{sink_id}")
        assert str(missing) in str(refused.value)
