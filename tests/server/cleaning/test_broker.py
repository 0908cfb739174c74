"""A broker that is killed during compactions loses no record, and completes the compaction in the
end (S9)."""

from __future__ import annotations

from pathlib import Path

import pytest
from confluent_kafka import OFFSET_BEGINNING, Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from tests.harness.broker import Oncelog
from tests.harness.waiting import wait_until

TOPIC = "compacted"
KEYS = 50
# The first pass over a log has the lowest priority. If it gets almost no processor time for 20 s,
# it ends, and the next pass has normal priority. On a busy machine, the test waits for these 20 s
# after each kill.
TIMEOUT_S = 90.0
SETTINGS = {
    "log.cleaner.backoff.ms": "20",
    # A pass takes some tenths of a second, so kills come at any point of it.
    "log.cleaner.io.max.bytes.per.second": "10000000",
}
CONFIG = {
    "cleanup.policy": "compact",
    "internal.segment.bytes": "200000",
    "min.cleanable.dirty.ratio": "0",
    "delete.retention.ms": "0",
}


def write(address: str, life: int) -> dict[bytes, bytes]:
    """Write two committed and one aborted transaction over all keys. Return the latest committed
    value of each key."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": "writer",
            "log_level": 0,
            "batch.size": 20_000,
        }
    )
    producer.init_transactions(TIMEOUT_S)
    latest = {}
    for turn in range(3):
        producer.begin_transaction()
        for number in range(20 * KEYS):
            key = b"key-%d" % (number % KEYS)
            value = b"%d-%d-%d" % (life, turn, number) + bytes(200)
            producer.produce(TOPIC, key=key, value=value, partition=0)
            if turn < 2:
                latest[key] = value
        if turn < 2:
            producer.commit_transaction(TIMEOUT_S)
        else:
            producer.abort_transaction(TIMEOUT_S)
    return latest


def read(address: str) -> dict[bytes, bytes]:
    consumer = Consumer(
        {
            "bootstrap.servers": address, "group.id": "reader", "enable.partition.eof": True,
            "isolation.level": "read_committed", "log_level": 0,
        }
    )  # fmt: skip
    consumer.assign([TopicPartition(TOPIC, 0, OFFSET_BEGINNING)])
    latest: dict[bytes, bytes] = {}
    while True:
        message = consumer.poll(TIMEOUT_S)
        assert message is not None, "the consumer got no record in time"
        if message.error() is not None:
            consumer.close()
            return latest
        key, value = message.key(), message.value()
        assert isinstance(key, bytes)
        assert isinstance(value, bytes)
        latest[key] = value


@pytest.mark.timeout(600)
def test_s9_a_broker_killed_repeatedly_during_compaction_loses_no_record(
    tmp_path: Path,
) -> None:
    with Oncelog(tmp_path, SETTINGS) as broker:
        admin = AdminClient({"bootstrap.servers": broker.address, "log_level": 0})
        admin.create_topics([NewTopic(TOPIC, 1, 1, config=CONFIG)])[TOPIC].result(TIMEOUT_S)
        directory = broker.data / f"{TOPIC}-0"

        def is_under_way() -> bool:
            return any(name.suffix in (".cleaned", ".swap") for name in directory.iterdir())

        def is_clean() -> bool:
            closed = sorted(directory.glob("*.log"))[:-1]
            try:
                return sum(log.stat().st_size for log in closed) < 40_000
            except FileNotFoundError:  # replaced by another segment since it was listed
                return False

        for life in range(4):
            latest = write(broker.address, life)
            wait_until(
                lambda: is_under_way() or is_clean(),
                "a pass is in progress or has ended",
                TIMEOUT_S,
            )
            broker.kill()
            broker.start()
            assert read(broker.address) == latest
        wait_until(is_clean, "all closed segments are compacted", TIMEOUT_S)
        assert read(broker.address) == latest
        assert broker.stop() == 0
        assert not is_under_way()
