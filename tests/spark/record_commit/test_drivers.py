"""Two drivers of one sink, and a driver that pauses and resumes long after the end of its batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from tests.spark.record_commit.query import Query


def test_the_older_of_two_drivers_commits_nothing(
    query: Query, visible: Callable[..., None]
) -> None:
    older = query.plan()
    messages = query.write(older, 0)
    newer = query.plan()
    assert newer.generation == older.generation + 1
    with pytest.raises(SinkError) as refused:
        query.commit(messages, 0)
    assert refused.value.reason is Reason.FENCED
    query.abort(messages, 0)
    visible()
    assert query.commit(query.write(newer, 0), 0)
    visible(0)
    assert not query.commit(messages, 0)
    visible(0)


def test_late_rows_of_an_older_driver_never_become_visible(
    query: Query, visible: Callable[..., None]
) -> None:
    older = query.plan()
    assert query.batch(0)
    late = query.write(older, 0)
    assert [commit.skipped for commit in late] == [False] * len(late)
    assert not query.commit(late, 0)
    # The late transaction delays readers only until the next batch.
    assert query.batch(1)
    visible(0, 1)


@pytest.mark.parametrize(
    "point",
    [
        "commit.read.after",
        "commit.decide.before",
        "commit.decide.after",
        "commit.end-members.before",
        "commit.end-members.after",
    ],
)
def test_a_commit_that_resumes_after_another_driver_took_over_changes_nothing(
    query: Query, visible: Callable[..., None], point: str
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
    visible(0, 1, 2)


def test_a_query_with_another_checkpoint_is_refused_and_fences_no_producer(
    query: Query, visible: Callable[..., None]
) -> None:
    assert query.batch(0)
    plan = query.plan()
    messages = query.write(plan, 1)
    other = replace(query, query_id="q-2")
    with pytest.raises(SinkError, match="belongs to query q-1") as refused:
        other.plan()
    assert refused.value.reason is Reason.NEW_CHECKPOINT
    assert query.commit(messages, 1)
    visible(0, 1)
    heir = other.having(onNewCheckpoint="adopt")
    assert heir.plan().done == 0
    with pytest.raises(SinkError):
        query.plan()


def test_a_done_batch_that_is_planned_again_is_skipped(
    query: Query, visible: Callable[..., None]
) -> None:
    """Spark has lost its record of the commit: `commits/<n>` was deleted."""
    query.run([0, 1])
    messages = query.write(query.plan(), 1)
    assert all(message.skipped for message in messages)
    assert not query.commit(messages, 1)
    query.run([2])
    visible(0, 1, 2)


def test_an_older_copy_of_the_checkpoint_is_refused(
    query: Query, visible: Callable[..., None]
) -> None:
    ended = replace(query, source_end='{"purchases":{"0":70}}')
    ended.run([0, 1, 2])
    plan = query.plan()
    with pytest.raises(SinkError, match="committed batch 2 of query q-1") as refused:
        query.write(plan, 1)
    assert refused.value.reason is Reason.OLD_CHECKPOINT
    # Spark plans the last batch again, with more rows.
    messages = query.write(plan, 2)
    assert all(message.skipped for message in messages)
    with pytest.raises(SinkError, match=r'"0":70.*"0":90') as refused:
        replace(query, source_end='{"purchases":{"0":90}}').commit(messages, 2)
    assert refused.value.reason is Reason.OLD_CHECKPOINT
    # The same batch again: only Spark's own record of the commit is missing.
    assert not ended.commit(messages, 2)
    ended.run([3])
    visible(0, 1, 2, 3)


def test_one_process_plans_batch_after_batch_in_one_generation(
    query: Query, visible: Callable[..., None]
) -> None:
    """Another process commits each batch, and continues the sequence numbers of the records of the
    sink's state."""
    generations = query.in_one_process(range(4))
    assert len(set(generations)) == 1
    visible(0, 1, 2, 3)


def test_a_read_of_the_sinks_state_can_wait_for_the_open_transaction_of_the_parent(
    query: Query,
) -> None:
    """Kafka responds to a commit before its marker is in the log. Until then the record of the
    sink's state cannot be read. Without the wait, a commit would read the previous record and take
    its driver for fenced."""
    query.run([0])
    plan = query.plan()
    offset = query.looks_while_open(plan)
    assert offset == 7


def test_a_worker_writes_the_next_batch_after_its_task_was_fenced(
    query: Query, visible: Callable[..., None]
) -> None:
    """The task of the next batch uses the same transactional id with a new producer."""
    query.fenced_while_it_writes(0)
    query.run([2])
    visible(1, 2)
