"""Transactions by each client (KIP-98, 447, 890), as readers of both isolation levels see them."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from confluent_kafka import IsolationLevel, TopicPartition
from confluent_kafka.admin import OffsetSpec

from tests.conformance.clients import Client, Record, Refused
from tests.conformance.clients.interface import Consumer, Producer, Received
from tests.conformance.conftest import Target, create_topic
from tests.conformance.polling import read
from tests.harness.waiting import wait_until


def batch(*values: str, partition: int = 0) -> list[Record]:
    """Return records with these values."""
    return [Record(value.encode(), key=b"k", partition=partition) for value in values]


def values(consumer: Consumer, count: int) -> list[str]:
    """Return the values of the next `count` records."""
    return [(record.value or b"").decode() for record in read(consumer, count)]


def latest(admin: Any, topic: str, partition: int, *, committed: bool) -> int:
    """Return the last stable offset or the high watermark from ListOffsets."""
    isolation = IsolationLevel.READ_COMMITTED if committed else IsolationLevel.READ_UNCOMMITTED
    place = TopicPartition(topic, partition)
    answer = admin.list_offsets({place: OffsetSpec.latest()}, isolation_level=isolation)
    return int(answer[place].result().offset)


def is_stable_up_to(offset: int, admin: Any, topic: str, partition: int) -> bool:
    return latest(admin, topic, partition, committed=True) == offset


def test_read_committed_skips_aborted_records_and_read_uncommitted_does_not(
    target: Target, client: Client, admin: Any, topic: str
) -> None:
    """An abort is between two commits. read_committed skips its records, read_uncommitted does
    not."""
    producer = client.producer(target.address, transactional_id=topic, codec="gzip")
    producer.init_transactions()
    for name in ("first", "dropped", "second"):
        producer.begin()
        producer.send(topic, batch(name + "-a", name + "-b"))
        producer.send(topic, batch(name + "-c", partition=1))
        producer.abort() if name == "dropped" else producer.commit()
    committed = client.consumer(target.address, topic, partitions=range(3), read_committed=True)
    expected = ["first-a", "first-b", "second-a", "second-b", "first-c", "second-c"]
    assert values(committed, 6) == expected
    everything = client.consumer(target.address, topic, partitions=range(3))
    assert len(read(everything, 9)) == 9
    wait_until(lambda: latest(admin, topic, 0, committed=True) == 9, "LSO = HW")
    assert latest(admin, topic, 0, committed=False) == 9  # 6 records and 3 markers
    assert committed.poll(0.3) == []


def test_read_committed_readers_stop_at_the_first_record_of_an_open_transaction(
    target: Target, client: Client, admin: Any, topic: str
) -> None:
    """The last stable offset is the first offset of the open transaction until its end."""
    plain = client.producer(target.address)
    plain.send(topic, batch("before-1", "before-2"))
    producer = client.producer(target.address, transactional_id=topic)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, batch("inside"))
    plain.send(topic, batch("after"))
    assert latest(admin, topic, 0, committed=True) == 2
    assert latest(admin, topic, 0, committed=False) == 4
    reader = client.consumer(target.address, topic, partitions=[0], read_committed=True)
    assert values(reader, 2) == ["before-1", "before-2"]
    assert reader.poll(0.5) == []
    producer.commit()
    assert values(reader, 2) == ["inside", "after"]
    wait_until(lambda: latest(admin, topic, 0, committed=True) == 5, "LSO = HW")


def test_offsets_sent_to_a_transaction_take_effect_at_its_commit(
    target: Target, client: Client, admin: Any, topic: str
) -> None:
    """KIP-447: the group continues after the input of a committed transaction and before the input
    of an aborted one."""
    plain = client.producer(target.address)
    plain.send(topic, batch(*"abcdef"))
    plain.close()
    group = f"group-{topic}"
    consumer = client.consumer(target.address, topic, group=group)
    assert values(consumer, 6) == list("abcdef")
    producer = client.producer(target.address, transactional_id=topic)
    producer.init_transactions()
    for offset, commits in ((2, True), (5, False)):
        producer.begin()
        producer.send(topic, batch("output", partition=1))
        producer.send_offsets({0: offset}, consumer)
        producer.commit() if commits else producer.abort()
    consumer.close()
    successor = client.consumer(target.address, topic, group=group, read_committed=True)
    found = read(successor, 5)
    assert [record.value for record in found if record.partition == 0] == [b"c", b"d", b"e", b"f"]
    assert [record.value for record in found if record.partition == 1] == [b"output"]


def zombie_acts(zombie: Producer, topic: str) -> None:
    """Let an old instance write to its transaction and commit it."""
    zombie.send(topic, batch("zombie"))
    zombie.commit()


def test_a_new_instance_fences_the_old_one(target: Target, client: Client, topic: str) -> None:
    """A transactional id has one live producer. The new instance aborts the old one's
    transaction."""
    old = client.producer(target.address, transactional_id=topic)
    old.init_transactions()
    old.begin()
    old.send(topic, batch("old"))
    new = client.producer(target.address, transactional_id=topic)
    new.init_transactions()
    with pytest.raises(Refused) as refusal:
        zombie_acts(old, topic)
    assert refusal.value.fenced, refusal.value
    new.begin()
    new.send(topic, batch("new"))
    new.commit()
    reader = client.consumer(target.address, topic, partitions=[0], read_committed=True)
    assert values(reader, 1) == ["new"]
    assert reader.poll(0.3) == []


def copy(target: Target, client: Client, source: str, sink: str, count: int) -> None:
    """Copy `count` records in transactions of about ten records. Abort and repeat every third
    transaction."""
    consumer = client.consumer(target.address, source, group=sink, read_committed=True)
    producer = client.producer(target.address, transactional_id=sink, codec="zstd")
    producer.init_transactions()
    done = attempt = 0
    pending: list[Received] = []
    while done < count:
        pending += [] if len(pending) >= 10 else consumer.poll(0.2)
        now, later = pending[:10], pending[10:]
        if not now:
            continue
        attempt += 1
        producer.begin()
        producer.send(
            sink, [Record(record.value, record.key, partition=record.partition) for record in now]
        )
        producer.send_offsets({record.partition: record.offset + 1 for record in now}, consumer)
        if attempt % 3 == 0:
            producer.abort()
            continue
        producer.commit()
        done, pending = done + len(now), later
    consumer.close()


def test_a_copy_with_aborts_has_every_record_once(
    target: Target, client: Client, admin: Any, topic: str
) -> None:
    """The exactly-once loop commits outputs and offsets together. Aborts lose and duplicate
    no record."""
    sink = f"{topic}-copy"
    create_topic(admin, sink, partitions=3)
    plain = client.producer(target.address)
    expected = sorted(f"v{number:03}" for number in range(90))
    plain.send(topic, [Record(text.encode(), partition=at % 3) for at, text in enumerate(expected)])
    plain.close()
    copy(target, client, topic, sink, len(expected))
    reader = client.consumer(target.address, sink, partitions=range(3), read_committed=True)
    assert sorted(values(reader, len(expected))) == expected
    assert reader.poll(0.3) == []
    reader.close()
    successor = client.consumer(target.address, topic, group=sink)
    assert successor.poll(1.0) == []


def test_many_short_transactions_of_one_producer_in_a_row(
    target: Target, client: Client, admin: Any, topic: str
) -> None:
    """The client sends the transactions without pauses. Each is accepted, and none stays open."""
    producer = client.producer(target.address, transactional_id=topic)
    producer.init_transactions()
    for number in range(30):
        producer.begin()
        producer.send(topic, batch(f"v{number}", partition=number % 3))
        producer.abort() if number % 5 == 4 else producer.commit()
    producer.close()
    reader = client.consumer(target.address, topic, partitions=range(3), read_committed=True)
    assert len(read(reader, 24)) == 24
    reader.close()
    for partition in range(3):
        # Kafka responds before it has written the marker of the last abort.
        wait_until(partial(is_stable_up_to, 20, admin, topic, partition), "LSO = HW")
        assert latest(admin, topic, partition, committed=False) == 20
