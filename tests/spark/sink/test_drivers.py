"""Commits by group of several processes: drivers that replace each other, late tasks, and rows that
must never be visible."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace

import pyarrow
import pytest

from oncelog_client import Admin, TransactionGroup
from oncelog_client.spark.sink import task_writer
from oncelog_client.spark.sink.protocol.attempts import Attempt
from oncelog_client.spark.sink.protocol.messages import TaskMessage
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from oncelog_client.spark.sink.protocol.state import SINK_PARTITION
from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until
from tests.spark.record_commit.forked import run
from tests.spark.record_commit.query import Query, expected
from tests.spark.topics import Topics

DEADLINE_S = 30


def visible(topics: Topics, query: Query) -> list[bytes]:
    return sorted(value or b"" for value in topics.values(query.topic))


def state_of(broker: Oncelog, query: Query) -> tuple[int, dict[str, object]]:
    async def read() -> tuple[int, dict[str, object]]:
        async with Admin(broker.address) as admin:
            found = (await admin.list_group_offsets(query.sink_id))[SINK_PARTITION]
            return found.offset, json.loads(found.metadata)

    return asyncio.run(read())


def open_now(broker: Oncelog, query: Query) -> list[str]:
    async def list_open() -> list[str]:
        async with Admin(broker.address) as admin:
            listed = await admin.list_transactions(
                states=["Ongoing"], transactional_id_pattern=f"{query.sink_id}/.*"
            )
            return [transaction.transactional_id for transaction in listed]

    return asyncio.run(list_open())


def wait_until_nothing_is_open(broker: Oncelog, query: Query) -> None:
    wait_until(lambda: not open_now(broker, query), "no transaction is open", DEADLINE_S)


def wait_until_timed_out(broker: Oncelog, query: Query) -> None:
    """Wait until the coordinator has aborted the transaction of the query's only task at its
    timeout."""

    async def states() -> list[str]:
        async with Admin(broker.address) as admin:
            listed = await admin.list_transactions(transactional_id_pattern=f"{query.sink_id}/.*")
            return [transaction.state for transaction in listed]

    wait_until(lambda: asyncio.run(states()) == ["CompleteAbort"], "the timeout", DEADLINE_S)


def fence(broker: Oncelog, message: TaskMessage) -> None:
    """Bump the epoch of a task's transactional id."""

    async def init() -> None:
        async with Admin(broker.address) as admin:
            group = TransactionGroup(message.plan.sink_id, message.plan.generation)
            await admin.init_producer(_member(message), group)

    asyncio.run(init())


def test_the_older_of_two_drivers_commits_nothing(query: Query, topics: Topics) -> None:
    older = query.plan()
    messages = query.write(older, 0)
    newer = query.plan()
    assert newer.generation == older.generation + 1
    with pytest.raises(SinkError, match=f"query q-1 in generation {newer.generation}") as refused:
        query.commit(messages, 0)
    assert refused.value.reason is Reason.FENCED
    query.abort(messages, 0)
    assert visible(topics, query) == []
    assert query.commit(query.write(newer, 0), 0)
    assert not query.commit(messages, 0)
    assert visible(topics, query) == expected(0)


def test_tasks_of_an_older_driver_are_refused(query: Query, broker: Oncelog) -> None:
    older = query.plan()
    query.plan()
    with pytest.raises(SinkError, match="another driver owns sink") as refused:
        query.write(older, 0)
    assert refused.value.reason is Reason.FENCED
    assert open_now(broker, query) == []


def test_the_state_has_the_query_and_the_row_count_of_the_last_batch(
    query: Query, broker: Oncelog
) -> None:
    assert query.batch(0)
    assert query.batch(1)
    offset, metadata = state_of(broker, query)
    assert offset == 2
    assert metadata == {"queryId": "q-1", "gen": 2, "rows": 4}


@pytest.mark.parametrize("point", ["commit.read.after", "commit.stage.after"])
def test_a_commit_that_resumes_after_another_driver_took_over_changes_nothing(
    query: Query, topics: Topics, point: str
) -> None:
    messages = query.write(query.plan(), 0)
    query.fail_points.pause(point)
    commit = query.start_commit(messages, 0)
    query.fail_points.wait_for(point)
    query.run([0, 1])
    query.fail_points.resume(point)
    with pytest.raises(SinkError) as refused:
        commit.result()
    assert refused.value.reason is Reason.FENCED
    query.run([2])
    assert visible(topics, query) == expected(0, 1, 2)


def test_tasks_and_commit_skip_a_done_batch(query: Query, topics: Topics) -> None:
    query.run([0, 1])
    messages = query.write(query.plan(), 1)
    assert all(message.skipped for message in messages)
    assert not query.commit(messages, 1)
    assert visible(topics, query) == expected(0, 1)


def test_a_task_without_a_batch_id_writes_a_done_batch_and_the_commit_skips_it(
    query: Query, topics: Topics
) -> None:
    """A task reads its batch id from a property of Spark, and Spark does not promise the name of
    this property."""
    query.run([0])
    plan = query.plan()
    blind = replace(plan, done=0)
    messages = [replace(message, plan=plan) for message in query.write(blind, 0)]
    assert all(message.member is not None for message in messages[1:])
    assert not query.commit(messages, 0)
    assert visible(topics, query) == expected(0)


def test_losing_attempts_are_aborted_when_the_batch_is_committed(
    query: Query, broker: Oncelog, topics: Topics
) -> None:
    """Readers of committed records would otherwise wait for the timeouts of these attempts."""
    plan = query.plan()
    losers = query.write(plan, 0)
    assert query.commit(query.write(plan, 0), 0)
    assert open_now(broker, query) == []
    assert visible(topics, query) == expected(0)
    # The next plan ends an attempt that begins after the commit.
    late = query.start_task(plan, 0, 1).result()
    assert open_now(broker, query) == [_member(late)]
    query.run([1])
    assert open_now(broker, query) == []
    assert visible(topics, query) == expected(0, 1)
    assert not {_member(loser) for loser in losers[1:]} & {_member(late)}


def _member(message: TaskMessage) -> str:
    assert message.member is not None
    return message.member.transactional_id


def test_a_failed_commit_leaves_nothing_open(query: Query, broker: Oncelog, topics: Topics) -> None:
    messages = query.write(query.plan(), 0)
    fence(broker, messages[1])
    with pytest.raises(SinkError, match=f"transaction {_member(messages[1])}") as refused:
        query.commit(messages, 0)
    assert refused.value.reason is Reason.MEMBER_GONE
    assert visible(topics, query) == []
    query.abort(messages, 0)
    assert open_now(broker, query) == []
    query.run([0])
    assert visible(topics, query) == expected(0)


def test_an_abort_after_a_commit_with_a_lost_response_undoes_nothing(
    query: Query, topics: Topics
) -> None:
    messages = query.write(query.plan(), 0)
    assert query.commit(messages, 0)
    query.abort(messages, 0)
    assert visible(topics, query) == expected(0)
    query.run([0, 1])
    assert visible(topics, query) == expected(0, 1)


def test_a_process_continues_its_generation_and_another_process_begins_a_new_one(
    query: Query, topics: Topics
) -> None:
    assert len(set(query.in_one_process(range(3)))) == 1
    # Another process of the driver has no generation to continue, so it begins a new generation.
    query.run([3])
    assert visible(topics, query) == expected(0, 1, 2, 3)


def test_two_users_of_a_sink_in_one_process_do_not_share_a_generation(query: Query) -> None:
    """A former defect: the process kept the generation by the addresses and the sink, without the
    credentials."""
    users = [
        query.having(kafka_security_protocol="PLAINTEXT", kafka_sasl_password=password)
        for password in ("first", "first", "second", "second")
    ]

    def work() -> list[int]:
        generations = []
        for batch_id, user in enumerate(users):
            plan = user.planned()
            generations.append(plan.generation)
            assert user.commit(user.write(plan, batch_id), batch_id)
        return generations

    first, kept, second, kept_too = run(work, query.fail_points.environment)
    assert first == kept < second == kept_too


def test_the_error_of_a_new_query_on_a_known_sink_has_the_last_committed_batch(
    query: Query,
) -> None:
    query.run([0, 1])
    plan = query.plan()
    other = replace(query, query_id="q-2")
    with pytest.raises(SinkError, match=r"belongs to query q-1.*committed batch 1") as refused:
        other.plan()
    assert refused.value.reason is Reason.NEW_CHECKPOINT
    # The refused query has fenced no producer.
    assert query.commit(query.write(plan, 2), 2)


def test_tasks_refuse_a_copied_sink_id_if_the_checkpoint_cannot_be_read(
    query: Query, topics: Topics
) -> None:
    """When the tasks of the copying query refuse, this query has already fenced the sink's owner.
    The owner's error explains this."""
    query.run([0])
    messages = query.write(query.plan(), 1)
    unknown = replace(query, query_id="q-2").having(checkpointLocation="s3a://bucket/c")
    with pytest.raises(SinkError, match="belongs to query q-1, not to q-2") as refused:
        unknown.write(unknown.plan(), 0)
    assert refused.value.reason is Reason.NEW_CHECKPOINT
    with pytest.raises(SinkError, match="begun by an unknown query") as refused:
        query.commit(messages, 1)
    assert refused.value.reason is Reason.FENCED
    query.run([1, 2])
    assert visible(topics, query) == expected(0, 1, 2)


def test_a_new_query_may_take_over_and_begins_at_batch_0(query: Query, topics: Topics) -> None:
    query.run([0, 1])
    heir = replace(query, query_id="q-2").having(onNewCheckpoint="adopt")
    assert heir.batch(0)
    assert heir.batch(1)
    assert visible(topics, query) == sorted(2 * expected(0, 1))
    with pytest.raises(SinkError, match="belongs to query q-2"):
        query.plan()
    # A query with later batches is not new, so the option does not help.
    with pytest.raises(SinkError, match="at batch 7, so the query is not new"):
        # The checkpoint cannot be read, so only the tasks know the query.
        query.write(replace(heir.plan(), query_id=None), 7)


def test_an_empty_batch_is_counted(query: Query, broker: Oncelog) -> None:
    messages = query.write(query.plan(), 0)
    empty = [replace(messages[0], partition=number) for number in range(3)]
    assert query.commit(empty, 0)
    assert state_of(broker, query)[0] == 1


def test_a_timeout_longer_than_the_broker_allows_is_refused_in_planning(query: Query) -> None:
    with pytest.raises(SinkError, match=r"timeout.ms=900001.*transaction.max.timeout.ms=900000"):
        query.having(kafka_transaction_timeout_ms="900001").plan()


def test_the_error_for_a_batch_longer_than_the_timeout_names_the_option(
    query: Query, broker: Oncelog, topics: Topics
) -> None:
    hasty = query.having(kafka_transaction_timeout_ms="300")
    messages = hasty.write_in_time(query.plan(), 0)
    wait_until_nothing_is_open(broker, query)
    with pytest.raises(
        SinkError, match=r"kafka\.transaction\.timeout\.ms must be longer"
    ) as refused:
        hasty.commit(messages, 0)
    assert refused.value.reason is Reason.MEMBER_GONE
    query.run([0])
    assert visible(topics, query) == expected(0)


def test_the_error_for_a_task_longer_than_the_timeout_has_its_duration(
    query: Query, broker: Oncelog
) -> None:
    hasty = query.having(kafka_transaction_timeout_ms="300")

    def rows() -> Iterator[pyarrow.RecordBatch]:
        yield pyarrow.RecordBatch.from_pylist([{"value": "first"}])
        wait_until_timed_out(broker, query)
        yield pyarrow.RecordBatch.from_pylist([{"value": "second"}])

    plan = query.plan()
    with pytest.raises(SinkError, match="timed out after 300 ms, its task took") as refused:
        task_writer.write(plan, hasty.options, Attempt(0, "q-1", 0), rows())
    assert refused.value.reason is Reason.MEMBER_GONE


def test_rows_are_invisible_before_the_decision(query: Query, topics: Topics) -> None:
    messages = query.write(query.plan(), 0)
    assert visible(topics, query) == []
    assert len(topics.values(query.topic, committed=False)) == len(expected(0))
    assert query.commit(messages, 0)
    assert visible(topics, query) == expected(0)
