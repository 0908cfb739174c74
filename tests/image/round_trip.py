"""Transactions through librdkafka, from outside the container."""

from __future__ import annotations

from collections.abc import Mapping

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

TRANSACTIONS = 20
RECORDS = 50
TIMEOUT_S = 30.0


def write_transactions(
    address: str, topic: str, security: Mapping[str, str] | None = None
) -> list[str]:
    """Write `TRANSACTIONS` transactions. Abort every fourth. Return the committed values.
    `security`: the settings of librdkafka for TLS and SASL."""
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": f"image-test-{topic}",
            **(security or {}),
        }
    )
    producer.init_transactions(TIMEOUT_S)
    committed = []
    for transaction in range(TRANSACTIONS):
        producer.begin_transaction()
        values = [f"{transaction}-{number}" for number in range(RECORDS)]
        for value in values:
            producer.produce(topic, value, partition=0)
        if transaction % 4 == 3:
            producer.flush(TIMEOUT_S)
            producer.abort_transaction(TIMEOUT_S)
        else:
            producer.commit_transaction(TIMEOUT_S)
            committed += values
    return committed


def read_committed(
    address: str, topic: str, security: Mapping[str, str] | None = None
) -> list[str]:
    """Return all committed values of partition 0 up to its last stable offset."""
    consumer = Consumer(
        {
            "bootstrap.servers": address,
            "group.id": "image-test",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            **(security or {}),
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    values = []
    try:
        while True:
            message = consumer.poll(TIMEOUT_S)
            if message is None:
                raise SystemExit(f"image-test: nothing read from {topic} in {TIMEOUT_S:.0f} s")
            error = message.error()
            if error is None:
                values.append(message.value().decode())
            elif error.code() == KafkaError._PARTITION_EOF:
                return values
            else:
                raise SystemExit(f"image-test: reading {topic}: {error}")
    finally:
        consumer.close()


def compare(expected: list[str], found: list[str]) -> None:
    """Check that each committed record occurs once, in order. End the program otherwise."""
    if expected != found:
        raise SystemExit(
            f"image-test: {len(expected)} records committed, {len(found)} read, "
            f"{len(set(expected) - set(found))} lost, {len(found) - len(set(found))} doubled"
        )
