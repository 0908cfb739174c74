"""Transactions that time out, lost responses, and other sinks that hang. The sink handles some of
these cases and reports the others."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import Admin, KafkaError, NewTopic, Producer, TransactionMember
from oncelog_client.spark.sink import driver, record_commit
from oncelog_client.spark.sink.protocol.messages import CommitKind, Plan, TaskMessage
from oncelog_client.spark.sink.protocol.record_log import STATE_PARTITION
from oncelog_client.spark.sink.protocol.refusals import Reason, SinkError
from oncelog_protocol.apis import ApiKey
from tests.harness.broker import Oncelog, OncelogByAddress
from tests.harness.client_reading import eventually
from tests.harness.kafka.kafka import Kafka
from tests.harness.lossy_proxy import LossyProxy
from tests.spark.fail_points import FailPoints
from tests.spark.record_commit.conftest import check_visible
from tests.spark.record_commit.forked import Killed, run
from tests.spark.record_commit.query import PARTITIONS, Query
from tests.spark.topics import Topics

SHORT_MS = "1500"


class Heard(logging.Handler):
    """A handler that keeps log messages."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.messages.append(record.getMessage())


def members(messages: list[TaskMessage]) -> list[TransactionMember]:
    return [message.member for message in messages if message.member is not None]


def fence(query: Query, *lost: TransactionMember) -> None:
    """Abort these transactions and bump the epochs of their producers, as a timeout does."""

    async def abort() -> None:
        async with Admin(query.bootstrap) as admin:
            await admin.fence_producers([transaction.transactional_id for transaction in lost])

    asyncio.run(abort())


def initialize(query: Query, *before: TransactionMember) -> None:
    """Initialize the ids of these transactions, as the next tasks do."""

    async def take() -> None:
        async with Admin(query.bootstrap) as admin:
            for transaction in before:
                await admin.init_producer(transaction.transactional_id)

    asyncio.run(take())


def wait_until_timed_out(query: Query, *lost: TransactionMember) -> None:
    ids = [transaction.transactional_id for transaction in lost]

    async def wait() -> None:
        async with Admin(query.bootstrap) as admin:

            async def over() -> bool:
                found = await admin.describe_transactions(ids)
                return all(transaction.state != "Ongoing" for transaction in found.values())

            await eventually(over)

    asyncio.run(wait())


def decided(query: Query, batch_id: int, tasks: Query | None = None) -> list[TaskMessage]:
    """Decide a batch, and kill the driver right after the decision. Return the messages of the
    tasks. `tasks`: the same query with the options of the tasks, if these differ."""
    messages = (tasks or query).write(query.plan(), batch_id)
    query.fail_points.kill("commit.decide.after")
    with pytest.raises(Killed):
        query.commit(messages, batch_id)
    return messages


def decided_in_time(query: Query, tasks: Query) -> list[TaskMessage]:
    """Decide batch 0 as `decided` does, with a short transaction timeout in the options of `tasks`.
    Retry if the computer pauses for longer than this timeout."""
    while True:
        messages = tasks.write_in_time(query.plan(), 0)
        query.fail_points.kill("commit.decide.after")
        try:
            query.commit(messages, 0)
        except Killed:
            return messages
        except SinkError as error:
            if error.reason is not Reason.MEMBER_GONE:
                raise
            query.fail_points.clear()


def test_a_transaction_that_ended_before_the_decision_prevents_the_batchs_commit(
    query: Query,
) -> None:
    messages = query.write(query.plan(), 0)
    fence(query, members(messages)[1])
    with pytest.raises(SinkError, match=members(messages)[1].transactional_id) as refused:
        query.commit(messages, 0)
    assert refused.value.reason is Reason.MEMBER_GONE
    assert "kafka.transaction.timeout.ms" in refused.value.message
    query.abort(messages, 0)
    check_visible(query)
    query.run([0, 1])
    check_visible(query, 0, 1)


def test_each_planning_fails_after_the_loss_of_a_decided_member(
    query: Query,
) -> None:
    query.run([0])
    messages = decided(query, 1)
    lost = members(messages)[0]
    fence(query, lost)
    for _ in range(2):
        with pytest.raises(SinkError, match=lost.transactional_id) as refused:
            query.plan()
        assert refused.value.reason is Reason.DECIDED_MEMBER_LOST


def test_a_fenced_driver_does_not_report_its_members_as_lost(
    query: Query,
) -> None:
    """The newer driver has committed the members, and their ids have new producers."""
    messages = query.write(query.plan(), 0)
    query.fail_points.pause("commit.end-members.before")
    commit = query.start_commit(messages, 0)
    query.fail_points.wait_for("commit.end-members.before")
    query.run([0])
    initialize(query, *members(messages))
    query.fail_points.resume("commit.end-members.before")
    with pytest.raises(SinkError) as refused:
        commit.result()
    assert refused.value.reason is Reason.FENCED
    check_visible(query, 0)


def test_an_open_transaction_of_a_dead_sink_does_not_delay_other_sinks(query: Query) -> None:
    """The dead sink's transaction is open in the topic that all sinks share."""
    query.run([0])

    async def open_one() -> Producer:
        name = f"{query.sink_id}-other"
        async with Producer(query.bootstrap, transactional_id=name) as producer:
            await producer.init_transactions()
            await producer.begin_transaction()
            topic, partition = STATE_PARTITION
            await producer.send(topic, b"{}", name.encode(), partition=partition)
            await producer.hand_over_transaction()
        return producer

    asyncio.run(open_one())
    query.run([1, 2])
    check_visible(query, 0, 1, 2)


def test_a_write_without_a_sink_reads_no_state_and_keeps_none(query: Query) -> None:
    """Otherwise a process with many such writes would keep the state of each."""
    plan = Plan(f"spark-write-{query.sink_id}", CommitKind.RECORD, 1, None, None, 0)

    def work() -> bool:
        # Earlier tests of this process have read state topics.
        before = set(record_commit._logs), set(record_commit._checked)
        messages = [query.written(plan, 0, number) for number in range(PARTITIONS)]
        assert driver.commit(query.options, messages, None, None)
        return (set(record_commit._logs), set(record_commit._checked)) == before

    assert run(work, query.fail_points.environment)
    check_visible(query, 0)


# -- tests with their own brokers


@pytest.fixture
def two_phase(tmp_path: Path, points: FailPoints, name: str) -> Iterator[Query]:
    """A sink on a broker with two-phase commit."""
    settings = {
        **QUICK,
        "transaction.two.phase.commit.enable": "true",
        "transaction.abort.timed.out.transaction.cleanup.interval.ms": "50",
    }
    with OncelogByAddress(tmp_path / "oncelog", settings) as broker:
        Topics(broker.address).create(name)
        yield Query(broker.address, name, name, points)


def hasty(query: Query) -> Query:
    """Return the query with a timeout of 300 ms for the transactions of its tasks."""
    return query.having(kafka_transaction_timeout_ms="300")


def test_with_two_phase_commit_a_decided_batch_survives_any_outage(two_phase: Query) -> None:
    messages = decided(two_phase, 0, hasty(two_phase))

    async def outage() -> None:
        """Wait until two transactions without two-phase commit have timed out, one after the other.
        The decided transactions have the same timeout, but they do not time out."""
        async with Admin(two_phase.bootstrap) as admin:
            for number in range(2):
                name = f"ordinary-{number}"
                made = await admin.init_producer(name, transaction_timeout_ms=300)
                async with Producer(two_phase.bootstrap, transactional_id=name) as producer:
                    await producer.adopt_transactions(made)
                    await producer.begin_transaction()
                    await producer.send("ordinary", b"v")
                    # After a long pause of the computer the transaction has already timed out.
                    with suppress(KafkaError):
                        await producer.hand_over_transaction()

                async def over(name: str = name) -> bool:
                    return (await admin.describe_transactions([name]))[name].state != "Ongoing"

                await eventually(over)

    asyncio.run(outage())
    assert len(members(messages)) == 2
    two_phase.run([1])
    check_visible(two_phase, 0, 1)


def test_with_two_phase_commit_uncommitted_attempts_do_not_stay_open(
    two_phase: Query,
) -> None:
    plan = two_phase.plan()
    hasty(two_phase).write(plan, 0)
    losers = members(hasty(two_phase).write(plan, 0))
    two_phase.run([0])
    wait_until_timed_out(two_phase, *losers)
    check_visible(two_phase, 0)


def test_a_write_without_a_sink_has_a_timeout_despite_two_phase_commit(two_phase: Query) -> None:
    """The driver dies before the commit. Readers wait no longer than the timeout."""
    plan = Plan(f"spark-write-{two_phase.sink_id}", CommitKind.RECORD, 1, None, None, 0)
    left = members(hasty(two_phase).write_in_time(plan, 0))
    assert len(left) == 2
    wait_until_timed_out(two_phase, *left)
    check_visible(two_phase)


def test_without_two_phase_commit_a_long_outage_loses_rows_and_is_reported(
    broker: Oncelog, points: FailPoints, name: str
) -> None:
    Topics(broker.address).create(name)
    query = Query(broker.address, name, name, points)
    messages = decided_in_time(query, query.having(kafka_transaction_timeout_ms=SHORT_MS))
    wait_until_timed_out(query, *members(messages))
    with pytest.raises(SinkError) as refused:
        query.plan()
    assert refused.value.reason is Reason.DECIDED_MEMBER_LOST


def test_each_sink_of_a_process_warns_once_of_missing_two_phase_commit(
    broker: Oncelog, points: FailPoints, name: str
) -> None:
    queries = [Query(broker.address, f"{name}-{number}", name, points) for number in range(2)]

    def warnings_of() -> list[str]:
        heard = Heard()
        logging.getLogger(record_commit.__name__).addHandler(heard)
        for query in [*queries, *queries]:
            query.planned()
        return heard.messages

    heard = run(warnings_of, points.environment)
    assert [line.split(":")[0] for line in heard] == [f"sink {query.sink_id}" for query in queries]
    assert all("the broker has no two-phase commit" in line for line in heard)


@pytest.fixture(params=["oncelog", "kafka"])
def lossy(
    request: pytest.FixtureRequest, tmp_path: Path, points: FailPoints, name: str
) -> Iterator[tuple[Query, LossyProxy]]:
    """A broker that advertises a proxy. The proxy loses responses."""
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    with LossyProxy() as proxy, kind(tmp_path / "broker", QUICK | proxy.advertised) as broker:
        proxy.target = broker.address
        Topics(proxy.address).create(name)
        yield Query(proxy.address, name, name, points), proxy


def test_each_row_is_visible_once_whatever_response_is_lost(
    lossy: tuple[Query, LossyProxy],
) -> None:
    query, proxy = lossy
    losses = (
        ApiKey.INIT_PRODUCER_ID,
        ApiKey.PRODUCE,
        ApiKey.ADD_PARTITIONS_TO_TXN,
        ApiKey.ADD_OFFSETS_TO_TXN,
        ApiKey.TXN_OFFSET_COMMIT,
        ApiKey.END_TXN,
        ApiKey.DESCRIBE_TRANSACTIONS,
        ApiKey.FETCH,
    )
    for batch_id, api in enumerate(losses):
        proxy.to_lose[api] = 1
        query.run([batch_id])
    assert proxy.lost == len(losses)
    for api in losses:
        proxy.to_lose[api] = 1
    query.run([len(losses)])
    check_visible(query, *range(len(losses) + 1))


def test_a_decided_batch_survives_the_death_of_broker_and_driver(
    fresh_broker: Oncelog, points: FailPoints, name: str
) -> None:
    Topics(fresh_broker.address).create(name)
    query = Query(fresh_broker.address, name, name, points)
    query.run([0])
    decided(query, 1)
    check_visible(query, 0)
    fresh_broker.kill()
    fresh_broker.start()
    query.plan()
    check_visible(query, 0, 1)
    query.run([1, 2])
    check_visible(query, 0, 1, 2)


# -- environments that would lose the state


def test_a_state_topic_without_compaction_is_refused(
    tmp_path: Path, points: FailPoints, name: str
) -> None:
    with OncelogByAddress(tmp_path / "oncelog", QUICK) as broker:

        async def create() -> None:
            async with Admin(broker.address) as admin:
                await admin.create_topics([NewTopic(STATE_PARTITION.topic, 1, 1)])

        asyncio.run(create())
        with pytest.raises(SinkError, match=r"cleanup\.policy=delete"):
            Query(broker.address, name, name, points).plan()


@pytest.mark.parametrize(("before", "after"), [("group", "record"), ("record", "group")])
def test_a_sink_cannot_start_again_with_another_protocol(
    broker: Oncelog, points: FailPoints, name: str, before: str, after: str
) -> None:
    Topics(broker.address).create(name)
    query = Query(broker.address, name, name, points)
    query.having(sinkProtocol=before).run([0])
    with pytest.raises(SinkError, match=f"sinkProtocol={before}"):
        query.having(sinkProtocol=after).plan()
