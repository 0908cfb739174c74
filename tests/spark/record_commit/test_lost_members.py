"""The broker has aborted a task's transaction after the sink has decided to commit the batch. The
query fails with an error, and an operator has the choices of docs/spark.md ("The hole of
`record`")."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest

from oncelog_client import Admin
from oncelog_client.spark.sink.protocol.messages import TaskMessage
from oncelog_client.spark.sink.protocol.record_log import STATE_PARTITION
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from tests.spark.record_commit.forked import Killed
from tests.spark.record_commit.query import Query, expected
from tests.spark.topics import Row, Topics


def lose(query: Query, batch_id: int, *, partition: int) -> str:
    """Decide to commit a batch, and kill the driver before it commits the tasks' transactions.
    Abort the transaction of one task, as a timeout does, and return its id."""
    messages = query.write(query.plan(), batch_id)
    query.fail_points.kill("commit.decide.after")
    with pytest.raises(Killed):
        query.commit(messages, batch_id)
    return abort(query, messages[partition])


def abort(query: Query, message: TaskMessage) -> str:
    """Abort the transaction of a task. Return its id."""
    assert message.member is not None
    lost = message.member.transactional_id

    async def fence() -> None:
        async with Admin(query.bootstrap) as admin:
            await admin.fence_producers([lost])

    asyncio.run(fence())
    return lost


def refusal(query: Query) -> SinkError:
    with pytest.raises(SinkError) as refused:
        query.plan()
    return refused.value


def rows_of(batch_id: int, partition: int) -> list[bytes]:
    return [
        value for value in expected(batch_id) if value.startswith(b"%d/%d/" % (batch_id, partition))
    ]


def written(query: Query) -> Counter[bytes | None]:
    return Counter(Topics(query.bootstrap).decided_values(query.topic))


def test_the_error_names_the_batch_and_the_transaction_and_says_what_to_do(query: Query) -> None:
    query.run([0])
    lost = lose(query, 1, partition=1)
    for _ in range(2):
        found = refusal(query)
        assert found.reason is Reason.DECIDED_MEMBER_LOST
        assert "DECIDED_MEMBER_LOST" in found.message
        assert f"batch 1 of sink {query.sink_id} has lost rows" in found.message
        assert f"transaction {lost}" in found.message
        assert "another sinkId" in found.message


def test_the_error_of_the_driver_that_decided_the_batch_names_the_batch_too(query: Query) -> None:
    query.run([0])
    messages = query.write(query.plan(), 1)
    query.fail_points.pause("commit.end-members.before")
    commit = query.start_commit(messages, 1)
    query.fail_points.wait_for("commit.end-members.before")
    abort(query, messages[1])
    query.fail_points.resume("commit.end-members.before")
    with pytest.raises(SinkError) as refused:
        commit.result()
    assert refused.value.reason is Reason.DECIDED_MEMBER_LOST
    assert f"batch 1 of sink {query.sink_id} has lost rows" in refused.value.message


def test_under_another_sink_id_the_whole_batch_is_written_again(query: Query) -> None:
    query.run([0])
    lose(query, 1, partition=1)
    refusal(query)
    again = replace(query, sink_id=f"{query.sink_id}-2")
    again.run([1, 2])
    assert written(query) == Counter(expected(0, 1, 2)) + Counter(rows_of(1, partition=2))


def test_the_query_continues_without_the_lost_rows_after_an_operator_writes_a_record(
    query: Query,
) -> None:
    query.run([0])
    lose(query, 1, partition=1)
    refusal(query)
    topics = Topics(query.bootstrap)
    topic, partition = STATE_PARTITION
    key = query.sink_id.encode()
    newest = [record.value for record in topics.read(topic, committed=False) if record.key == key][
        -1
    ]
    assert newest is not None
    decided = json.loads(newest)["commit"]
    del decided["members"]
    by_hand = json.dumps({"format": 1, **decided}).encode()
    topics.append(topic, [Row(by_hand, key, partition=partition)])
    # Spark repeats the batch, because its own record of the commit is missing.
    query.run([1, 2])
    assert written(query) == Counter(expected(0, 1, 2)) - Counter(rows_of(1, partition=1))
