"""Two-phase commit (KIP-939) with real processes and kill -9, on one broker and on three. No
released Apache Kafka has KIP-939."""

from __future__ import annotations

import asyncio
import random
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog.testing.broker import QUICK
from oncelog_client import (
    Admin,
    AuthorizationError,
    FatalError,
    IllegalStateError,
    NewTopic,
    PreparedTxnState,
    Producer,
    ProducerFencedError,
    TopicPartition,
    UnsupportedVersionError,
)
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.topic_names import TRANSACTION_STATE
from oncelog_server.coordinator.routing import partition_for
from tests.client.cli.conftest import CommandLine
from tests.client.dual_writer import last, opened
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually, read_decided, read_values
from tests.harness.cluster import Cluster
from tests.harness.etcd import Etcd
from tests.harness.kafka.kafka import Kafka

TWO_PHASE = {
    **QUICK,
    # The id `p` and the group `group` are in one shard, the id `other` is in another.
    "transaction.state.log.num.partitions": "5",
    "transaction.two.phase.commit.enable": "true",
    "transaction.max.timeout.ms": "400",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
}
ROOT = Path(__file__).parents[2]
ROWS = 61
Brokers = Oncelog | Cluster
# The time for a dozen processes, one after the other.
PROCESSES_S = 150.0


@pytest.fixture(params=[1, 3], ids=["one broker", "three brokers"])
def broker(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Brokers]:
    with brokers(tmp_path, request, request.param) as running:
        yield running


def brokers(directory: Path, request: pytest.FixtureRequest, count: int) -> Brokers:
    """Return brokers that are not started."""
    if count == 1:
        return Oncelog(directory, TWO_PHASE)
    etcd: Etcd = request.getfixturevalue("real_etcd")
    settings = {**TWO_PHASE, "oncelog.etcd.prefix": f"/{directory}/"}
    return Cluster(directory, etcd, count, settings)


def restart(broker: Brokers, transactional_id: str = "p") -> None:
    """Kill the broker that coordinates an id, and start it again."""
    if isinstance(broker, Cluster):
        shards = int(TWO_PHASE["transaction.state.log.num.partitions"])
        broker.fail_over(TRANSACTION_STATE, partition_for(transactional_id, shards))
    else:
        broker.kill()
        broker.start()


def logs_of(broker: Brokers) -> str:
    """Return the log events of all brokers."""
    members = broker.brokers.values() if isinstance(broker, Cluster) else [broker]
    return "".join(member.log.read_text(errors="replace") for member in members)


def participant(broker: Brokers, transactional_id: str = "p") -> Producer:
    return Producer(
        broker.address,
        transactional_id=transactional_id,
        transaction_two_phase_commit_enable=True,
        client_id="voter",
    )


async def prepared(broker: Brokers, *values: bytes) -> PreparedTxnState:
    """Prepare a transaction, and close its producer. Return the prepared state."""
    async with participant(broker) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        for number, value in enumerate(values):
            await producer.send("t", value, partition=number % 2)
        return await producer.prepare_transaction()


@pytest.mark.parametrize("committed", [True, False])
async def test_w2_a_prepared_transaction_survives_producer_and_broker_and_is_completed(
    broker: Brokers, committed: bool
) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 2)])
    state = await prepared(broker, b"one", b"two")
    restart(broker)
    assert await read_values(broker.address, "t", committed=True) == []
    async with participant(broker) as first, participant(broker) as second:
        await first.init_transactions(keep_prepared_txn=True)
        await second.init_transactions(keep_prepared_txn=True)
        with pytest.raises(ProducerFencedError):
            await first.commit_transaction()
        with pytest.raises(IllegalStateError, match="prepared"):
            await second.send("t", b"more")
        restart(broker)
        await second.complete_transaction(state if committed else PreparedTxnState(1, 2))
        expected = [b"one", b"two"] if committed else []
        assert await read_values(broker.address, "t", committed=True) == expected
        async with second.transaction():
            await second.send("t", b"after", partition=0)
    values = await read_values(broker.address, "t", committed=True)
    assert sorted(value or b"" for value in values) == sorted([*expected, b"after"])


@pytest.mark.parametrize("group", ["group", "other"])
async def test_w2_a_transaction_prepared_in_a_group_is_kept_only_for_a_member_of_the_group(
    broker: Brokers, group: str
) -> None:
    joined = [TopicPartition("in", 0)], group, 1
    async with participant(broker) as producer:
        await producer.init_transactions(*joined)
        await producer.begin_transaction()
        await producer.send("t", b"voted", partition=0)
        state = await producer.prepare_transaction()
    restart(broker)
    async with participant(broker) as other:
        with pytest.raises(FatalError) as caught:
            await other.init_transactions(keep_prepared_txn=True)
        assert caught.value.code == ErrorCode.INVALID_TXN_STATE
    async with participant(broker) as producer:
        await producer.init_transactions(*joined, keep_prepared_txn=True)
        await producer.complete_transaction(state)
        async with producer.transaction():
            await producer.send("t", b"after", partition=0)
    assert await read_values(broker.address, "t", committed=True) == [b"voted", b"after"]


async def test_w1_a_two_phase_transaction_stays_open_over_timeouts_and_three_crashes(
    broker: Brokers,
) -> None:
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 2), NewTopic("control", 1)])
    state = await prepared(broker, b"held")
    for number in range(3):
        # Meanwhile an ordinary transaction times out.
        async with Producer(
            broker.address, transactional_id=f"o{number}", transaction_timeout_ms=400
        ) as ordinary:
            await ordinary.init_transactions()
            await ordinary.begin_transaction()
            await (await ordinary.send("control", b"timed out", partition=0))

            async def timed_out(times: int = number + 1) -> bool:
                return logs_of(broker).count('"event":"transaction aborted"') >= times

            await eventually(timed_out)
        restart(broker)
    assert await read_values(broker.address, "t", committed=True) == []
    async with Admin(broker.address) as admin:
        described = (await admin.describe_transactions(["p"]))["p"]
    assert (described.state, described.transaction_timeout_ms) == ("Ongoing", 2**31 - 1)
    assert described.time_left_ms is None
    tool = CommandLine(broker.address)
    (row,) = await asyncio.to_thread(tool.json, "transactions", "prepared")
    assert (row["transactional_id"], row["prepared_state"]) == ("p", str(state))
    assert row["age_ms"] > 3 * 400
    assert row["topic_partitions"] == ["t-0"]
    # These values come from the log, because the restarted broker has had no request of the
    # producer.
    assert (row["client_id"], row["client_address"]) == ("voter", "/127.0.0.1")
    async with participant(broker) as producer:
        await producer.init_transactions(keep_prepared_txn=True)
        await producer.complete_transaction(state)
    assert await asyncio.to_thread(tool.json, "transactions", "prepared") == []
    assert await read_values(broker.address, "t", committed=True) == [b"held"]


async def test_blocking_abort_refuses_a_two_phase_transaction_without_include_two_phase(
    broker: Brokers,
) -> None:
    """Other systems may have committed their parts. `blocking --abort` therefore refuses without
    --include-two-phase."""
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 2)])
    state = await prepared(broker, b"voted")
    restart(broker)
    tool = CommandLine(broker.address)
    blocking = "transactions", "blocking", "t"
    for named in ("p", str(state.producer_id)):
        refused = await asyncio.to_thread(tool.refused, *blocking, "--abort", named)
        assert "p takes part in a two-phase commit" in refused
        assert "--include-two-phase" in refused
    (row,) = await asyncio.to_thread(tool.json, *blocking)
    assert (row["transactional_id"], row["state"]) == ("p", "Ongoing")
    assert (row["two_phase"], row["time_left_ms"]) == (True, None)
    assert (row["client_id"], row["client_address"]) == ("voter", "/127.0.0.1")
    table = await asyncio.to_thread(tool.text, *blocking)
    assert table.startswith("p ")
    assert "two-phase: its application decides" in table.splitlines()[0]
    allowed = (*blocking, "--abort", "p", "--include-two-phase")
    (done,) = await asyncio.to_thread(tool.json, *allowed)
    assert done["how"] == "by its coordinator: p"
    assert await read_values(broker.address, "t", committed=True) == []
    assert await asyncio.to_thread(tool.json, *blocking) == []
    alone = await asyncio.to_thread(tool.refused, *blocking, "--include-two-phase")
    assert "--include-two-phase needs --abort" in alone


async def test_no_command_ends_a_two_phase_transaction_without_include_two_phase(
    broker: Brokers,
) -> None:
    """Without --include-two-phase, no command ends the transaction through its coordinator. No
    command ends its part in one partition."""
    async with Admin(broker.address) as admin:
        await admin.create_topics([NewTopic("t", 2)])
    state = await prepared(broker, b"one", b"two")
    restart(broker)
    tool = CommandLine(broker.address)
    for verb in (("force-terminate",), ("forceTerminateTransaction", "--transactionalId")):
        refused = await asyncio.to_thread(tool.refused, "transactions", *verb, "p")
        assert "p takes part in a two-phase commit" in refused
        assert "--include-two-phase" in refused
    marker = "transactions", "abort", "--topic", "t", "--partition", "0", "--start-offset", "0"
    refused = await asyncio.to_thread(tool.refused, *marker)
    assert "p has a transaction in t-0 (Ongoing)" in refused
    async with participant(broker) as producer:
        await producer.init_transactions(keep_prepared_txn=True)
        await producer.complete_transaction(state)
    assert await read_values(broker.address, "t", committed=True) == [b"one", b"two"]
    # The transaction is decided, so the command does not need --include-two-phase.
    await asyncio.to_thread(tool.text, "transactions", "force-terminate", "p")
    await prepared(broker, b"three")
    terminate = "transactions", "force-terminate", "p", "--include-two-phase"
    await asyncio.to_thread(tool.text, *terminate)
    await prepared(broker, b"four")
    former = "txn", "abort", "p", "--even-two-phase"
    await asyncio.to_thread(tool.text, *former)
    assert await read_decided(broker.address, "t") == [b"one", b"two"]


async def test_w3_init_transactions_without_keep_prepared_aborts_a_prepared_transaction(
    broker: Brokers,
) -> None:
    state = await prepared(broker, b"given up")
    async with participant(broker) as producer:
        await producer.init_transactions()
        with pytest.raises(IllegalStateError, match="nothing is prepared"):
            await producer.complete_transaction(state)
        async with producer.transaction():
            await producer.send("t", b"next")
    assert await read_values(broker.address, "t", committed=True) == [b"next"]


async def test_a_transaction_completed_before_a_crash_can_be_completed_again(
    broker: Brokers,
) -> None:
    """The external coordinator has stored the decision, but no confirmation of its execution."""
    async with participant(broker) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.send("t", b"once")
        state = await producer.prepare_transaction()
        await producer.complete_transaction(state)
    async with participant(broker) as producer:
        await producer.init_transactions(keep_prepared_txn=True)
        await producer.complete_transaction(state)
        async with producer.transaction():
            await producer.send("t", b"next")
    values = await read_values(broker.address, "t", committed=True)
    assert sorted(value or b"" for value in values) == [b"next", b"once"]


async def test_w4_the_error_names_the_setting_if_two_phase_commit_is_disabled(
    tmp_path: Path,
) -> None:
    setting = r"transaction\.two\.phase\.commit\.enable"
    with Oncelog(tmp_path, QUICK) as broker:
        for keep in (True, False):
            async with participant(broker) as producer:
                with pytest.raises(FatalError, match=setting) as caught:
                    await producer.init_transactions(keep_prepared_txn=keep)
                assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        async with Admin(broker.address) as admin:
            with pytest.raises(AuthorizationError, match=setting):
                await admin.init_producer("p", two_phase_commit=True)


async def test_a_broker_without_kip_939_refuses_two_phase_commit(kafka: Kafka, name: str) -> None:
    async with Producer(
        kafka.address, transactional_id=name, transaction_two_phase_commit_enable=True
    ) as producer:
        with pytest.raises((FatalError, UnsupportedVersionError), match="InitProducerId"):
            await producer.init_transactions()


async def test_a_producer_without_two_phase_commit_cannot_prepare(broker: Brokers) -> None:
    async with Producer(
        broker.address, transactional_id="p", transaction_timeout_ms=400
    ) as producer:
        await producer.init_transactions()
        await producer.begin_transaction()
        with pytest.raises(IllegalStateError, match="two_phase"):
            await producer.prepare_transaction()


@pytest.mark.parametrize(("seed", "count"), [(1, 1), (2, 1), (3, 3)])
def test_w2_a_database_and_a_topic_agree_whichever_process_is_killed(
    tmp_path: Path, request: pytest.FixtureRequest, seed: int, count: int
) -> None:
    """The dual write of KIP-939 to a database and a topic. The writer, and the coordinator of its
    transactions (one of `count` brokers), are killed at random."""
    randomness = random.Random(seed)
    path = str(tmp_path / "database")
    with brokers(tmp_path, request, count) as broker:
        database = opened(path)
        command = [
            sys.executable,
            "-m",
            "tests.client.dual_writer",
            broker.address,
            path,
            str(ROWS),
        ]
        deadline = time.monotonic() + PROCESSES_S
        while last(database)[0] < ROWS - 1:
            process = subprocess.Popen(command, cwd=ROOT)
            goal = last(database)[0] + randomness.randrange(1, 12)
            while process.poll() is None and last(database)[0] < goal:
                assert time.monotonic() < deadline
                time.sleep(randomness.random() / 100)  # the kill comes at any moment of the work
            if randomness.random() < 0.5:
                restart(broker, "dual")
            process.kill()
            process.wait()
        # This run completes the last stored transaction.
        subprocess.run(command, cwd=ROOT, check=True, timeout=PROCESSES_S)
        stored = [number for (number,) in database.execute("SELECT number FROM rows")]
        values = asyncio.run(read_values(broker.address, "t", committed=True))
    assert sorted(int(value or b"") for value in values) == sorted(stored)
    assert len(stored) > ROWS // 2
