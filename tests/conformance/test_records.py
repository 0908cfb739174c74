"""Every client reads the records of every other client as they were written."""

from __future__ import annotations

import time

import pytest

from tests.conformance.clients import Client, Record
from tests.conformance.conftest import Target, create_topic
from tests.conformance.polling import read

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def sample(codec: str, partition: int) -> list[Record]:
    """Return records of every kind that a producer can write, enough to compress well."""
    now_ms = int(time.time() * 1000)
    records = [
        Record(None, key=b"only a key"),
        Record(b"", key=b""),
        Record("Zwölf Boxkämpfer".encode(), headers=(("h", b"1"), ("h", b"2"), ("leer", b""))),
        Record(bytes(range(256)), key=b"\x00", headers=(("ключ", b"\xff" * 300),)),
        Record(b"x" * 20_000),
        *(Record(f"{codec}-{number}".encode() * 5, key=b"k") for number in range(40)),
    ]
    return [
        Record(record.value, record.key, record.headers, now_ms - 60_000 + at, partition)
        for at, record in enumerate(records)
    ]


def test_every_client_reads_what_a_client_wrote_in_any_codec(
    target: Target, client: Client, clients: dict[str, Client], admin: object, name: str
) -> None:
    """Each codec has a partition of its own. Keys, values, headers, timestamps and offsets are
    equal."""
    create_topic(admin, name, partitions=len(CODECS))
    written: dict[tuple[int, int], Record] = {}
    for partition, codec in enumerate(CODECS):
        records = sample(codec, partition)
        producer = client.producer(target.address, codec=codec)
        places = producer.send(name, records)
        producer.close()
        assert places == [(partition, offset) for offset in range(len(records))], codec
        written |= dict(zip(places, records, strict=True))
    for reader in clients.values():
        consumer = reader.consumer(target.address, name, partitions=range(len(CODECS)))
        received = read(consumer, len(written))
        consumer.close()
        found = {
            (record.partition, record.offset): Record(
                record.value, record.key, record.headers, record.timestamp, record.partition
            )
            for record in received
        }
        for place, record in written.items():
            codec = CODECS[place[0]]
            assert found[place] == record, f"{codec} from {client.name} to {reader.name}"


@pytest.mark.parametrize("isolation", ["read_uncommitted", "read_committed"])
def test_a_record_of_almost_the_largest_size_is_delivered(
    target: Target, python_clients: dict[str, Client], topic: str, isolation: str
) -> None:
    """A record just below `max.message.bytes` is larger than any buffer between the clients."""
    confluent = python_clients["confluent-kafka"]
    producer = confluent.producer(target.address)
    value = b"large" * 180_000
    producer.send(topic, [Record(value)])
    consumer = confluent.consumer(
        target.address, topic, partitions=[0], read_committed=isolation == "read_committed"
    )
    assert read(consumer, 1)[0].value == value


def test_the_broker_stamps_records_where_the_topic_says_so(
    target: Target, client: Client, admin: object, name: str
) -> None:
    """With `message.timestamp.type=LogAppendTime` (KIP-32), the broker's time replaces the
    producer's timestamp."""
    create_topic(admin, name, config={"message.timestamp.type": "LogAppendTime"})
    before_ms = int(time.time() * 1000)
    producer = client.producer(target.address, codec="lz4")
    producer.send(name, [Record(b"v", timestamp=before_ms - 1_000_000) for _ in range(3)])
    producer.close()
    consumer = client.consumer(target.address, name, partitions=[0])
    stamps = [record.timestamp for record in read(consumer, 3)]
    consumer.close()
    after_ms = int(time.time() * 1000)
    assert all(before_ms - 1000 <= stamp <= after_ms + 1000 for stamp in stamps), stamps
