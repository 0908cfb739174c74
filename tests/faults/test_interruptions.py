"""Processes that pause or die: a suspended broker, and clients that are killed or disappear while
they wait (T1-T4, N1-N3)."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from confluent_kafka import Producer

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.api_versions import ApiVersionsRequest
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from oncelog_protocol.records.batch import build_batch
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    QUICK,
    create,
    end_offset,
    events,
    fetch,
    last_stable_offset,
    merged,
    taken,
    values,
)
from tests.harness.waiting import wait_until
from tests.harness.watch import Watch
from tests.harness.writing import (
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
    records,
)

STOPPED_S = 1.0
WAITING = 20
# Transaction timeout of a client that is killed, and the maximum delay of the abort after that
# timeout. Before the timeout, the test looks at the open transaction.
TIMEOUT_S = 12.0
LATEST_S = 4.0
# Timeout of a transaction that is open when the broker dies, and of a transaction that begins after
# the broker's restart.
OLD_TIMEOUT_MS = 3_000
NEW_TIMEOUT_MS = 1_000
# A new group waits this long for more members. All members must join and be counted within this
# time.
REBALANCE_MS = 12_000


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    groups = {
        "group.initial.rebalance.delay.ms": str(REBALANCE_MS),
        "group.min.session.timeout.ms": "100",
    }
    settings = merged(QUICK, groups)
    with Oncelog(tmp_path_factory.mktemp("interruptions"), settings) as broker:
        yield broker
        events(broker)


@pytest.fixture
def wire(broker: Oncelog) -> Iterator[Wire]:
    with Wire(broker.address) as wire:
        yield wire


@contextmanager
def suspended(broker: Oncelog) -> Iterator[None]:
    """Suspend the process (SIGSTOP) until the end of the block (SIGCONT)."""
    broker._running().send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        broker._running().send_signal(signal.SIGCONT)


def test_a_broker_that_was_suspended_in_a_transaction_continues(
    broker: Oncelog, wire: Wire
) -> None:
    """The resumed broker serves the requests that were sent meanwhile, once and in order."""
    create(wire, "suspended")
    producer = Producer(
        {"bootstrap.servers": broker.address, "transactional.id": "suspended", "linger.ms": 0}
    )
    producer.init_transactions(20)
    expected = []
    for number in range(3):
        producer.begin_transaction()
        for half in (0, 1):
            value = b"%d-%d" % (number, half)
            producer.produce("suspended", value, partition=0)
            expected.append(value)
            with suspended(broker):
                producer.poll(STOPPED_S / 6)
        with suspended(broker):
            producer.poll(STOPPED_S / 6)
        producer.commit_transaction(20)
    assert values(wire, "suspended") == expected
    assert last_stable_offset(wire, "suspended") == end_offset(wire, "suspended")


KILLED_CLIENT = """
import sys, time
from confluent_kafka import Producer
address, topic = sys.argv[1:]
producer = Producer({"bootstrap.servers": address, "transactional.id": topic,
                     "transaction.timeout.ms": 12000})  # TIMEOUT_S
producer.init_transactions(20)
producer.begin_transaction()
producer.produce(topic, b"never", partition=0)
producer.flush(20)
print("sent", flush=True)
time.sleep(60)
"""


def test_t1_n3_the_transaction_of_a_killed_client_is_aborted_at_its_timeout(
    broker: Oncelog, wire: Wire
) -> None:
    """The abort needs no other client. Readers then get past the transaction and never see its
    records."""
    create(wire, "killed")
    command = [sys.executable, "-c", KILLED_CLIENT, broker.address, "killed"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        assert client.stdout.readline() == b"sent\n"
        watch = Watch(broker.pid)
        client.kill()
    assert last_stable_offset(wire, "killed") == 0
    assert produce(wire, "killed", build_batch(records(1, b"after"))).base_offset == 1
    assert values(wire, "killed") == []
    longest_ms = int((TIMEOUT_S + LATEST_S) * 1000)
    found = fetch(wire, "killed", committed=True, max_wait_ms=2 * longest_ms, min_bytes=1)
    assert watch.passed_s < TIMEOUT_S + LATEST_S
    assert found.last_stable_offset == found.high_watermark == 3, "the transaction is not aborted"
    assert values(wire, "killed") == [b"after"]
    logged = [event for event in events(broker) if event["event"] == "transaction aborted"]
    assert [(event["transactional_id"], event["cause"]) for event in logged] == [
        ("killed", "timed out")
    ]


def test_s12_t5_an_open_transaction_keeps_its_deadline_over_a_crash(tmp_path: Path) -> None:
    """S12: the coordinator counts from the transaction's start, even after a restart. It aborts an
    overdue transaction before a new transaction with a shorter timeout."""
    broker = Oncelog(tmp_path, QUICK)
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "t")
        old = new_identity(wire, "old", timeout_ms=OLD_TIMEOUT_MS)
        assert produce(wire, "t", batch(old, 0), producer=old).error_code == ErrorCode.NONE
    broker.kill()
    time.sleep(OLD_TIMEOUT_MS / 1000)  # the downtime: the transaction is overdue afterwards
    broker.start()
    with Wire(broker.address) as wire:
        new = new_identity(wire, "new", timeout_ms=NEW_TIMEOUT_MS)
        assert produce(wire, "t", batch(new, 0), producer=new).error_code == ErrorCode.NONE
        wait_until(
            lambda: last_stable_offset(wire, "t") == end_offset(wire, "t") == 4,
            "both transactions are aborted",
        )
        fenced = end_transaction(wire, old, commit=True)
        assert fenced.error_code != ErrorCode.NONE
        assert values(wire, "t") == []
    broker.stop()
    logged = [event for event in events(broker) if event["event"] == "transaction aborted"]
    assert [event["transactional_id"] for event in logged] == ["old", "new"]


def descriptors(broker: Oncelog) -> int:
    return taken(broker.pid).descriptors


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_readers_that_disconnect_while_they_wait_leave_no_parked_fetches(
    broker: Oncelog, wire: Wire
) -> None:
    """The Fetch requests would wait for a minute. They end when their clients disconnect, and
    producers never wait for them."""
    create(wire, "parked")
    assert produce(wire, "parked", build_batch(records())).error_code == ErrorCode.NONE
    before = descriptors(broker)
    parked = [Wire(broker.address) for _ in range(WAITING)]
    wanted = FetchTopic(topic="parked", partitions=[FetchPartition(0, fetch_offset=1)])
    for request in parked:
        assert request.call(ApiVersionsRequest("parked", "1"), 3).api_keys
        request.send(FetchRequest(max_wait_ms=60_000, min_bytes=1, topics=[wanted]), 12)
    for request in parked[1:]:
        request.socket.close()
    wait_until(lambda: descriptors(broker) <= before + 1, "the descriptors are free again")
    assert produce(wire, "parked", build_batch(records())).base_offset == 1
    assert parked[0].answer().responses[0].partitions[0].high_watermark == 2
    parked[0].socket.close()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_members_that_disconnect_while_they_join_leave_the_group(
    broker: Oncelog, wire: Wire
) -> None:
    """The members disconnect before the first rebalance. The rebalance completes without them, and
    their sessions expire."""
    find_coordinator(wire, "joining", key_type=0)
    before = descriptors(broker)
    members = [Wire(broker.address) for _ in range(WAITING)]
    for member in members:
        member.send(
            JoinGroupRequest(
                group_id="joining",
                session_timeout_ms=500,
                rebalance_timeout_ms=REBALANCE_MS,
                protocol_type="consumer",
                protocols=[JoinGroupRequestProtocol("range", b"")],
            ),
            3,
        )
    wait_until(lambda: members_of(wire, "joining") == WAITING, "all members have joined")
    for member in members:
        member.socket.close()
    wait_until(lambda: descriptors(broker) <= before, "the descriptors are free again")
    wait_until(lambda: members_of(wire, "joining") == 0, "the group is empty")


def members_of(wire: Wire, group: str) -> int:
    """Return the number of members that the coordinator counts."""
    return len(wire.call(DescribeGroupsRequest(groups=[group]), 5).groups[0].members)
