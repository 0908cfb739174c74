"""The worker of `worker.py`, with confluent-kafka. The code also works with Apache Kafka, without a
change.

python -m examples.purchases.worker_confluent BOOTSTRAP_SERVERS NUMBER
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer, TopicPartition

from examples.purchases.billing import (
    ABORT_EVERY,
    BATCH,
    GROUP,
    INVOICES,
    PURCHASES,
    SHIPMENTS,
    invoice,
    shipment,
)
from examples.purchases.data import Purchase


def next_offsets(messages: list[Message]) -> list[TopicPartition]:
    ends: dict[tuple[str, int], int] = {}
    for message in messages:
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        assert topic is not None
        assert partition is not None
        assert offset is not None
        ends[topic, partition] = offset + 1
    return [TopicPartition(topic, partition, offset) for (topic, partition), offset in ends.items()]


def committed(consumer: Consumer, partitions: list[TopicPartition]) -> list[TopicPartition]:
    """Return the committed offsets, or 0 for a partition without one. Without the explicit 0,
    librdkafka 2.16 would look up the earliest offset. A response to this look-up that comes after a
    rebalance would move the position to the earliest offset."""
    while True:
        found = consumer.committed(partitions, timeout=30)
        errors = [place.error for place in found if place.error is not None]
        if not errors:
            return [
                TopicPartition(partition.topic, partition.partition, max(partition.offset, 0))
                for partition in found
            ]
        # UNSTABLE_OFFSET_COMMIT: the transaction of another worker is ending, so the offset will be
        # stable soon.
        if any(error.code() != KafkaError.UNSTABLE_OFFSET_COMMIT for error in errors):
            raise KafkaException(errors[0])


def next_messages(consumer: Consumer) -> list[Message]:
    """Return the records that arrive within 0.2 s. All errors of a consumer are transient except
    one: the next offset was deleted from the log."""
    polled = consumer.consume(BATCH, 0.2)
    for message in polled:
        error = message.error()
        if error is not None and error.code() == KafkaError._AUTO_OFFSET_RESET:
            raise KafkaException(error)
    return [message for message in polled if message.error() is None]


def rewind(consumer: Consumer) -> None:
    """Seek to the committed offsets, because an abort does not rewind the position."""
    for place in committed(consumer, consumer.assignment()):
        consumer.seek(place)


def assigned(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    consumer.assign(committed(consumer, partitions))


def revoked(consumer: Consumer, partitions: list[TopicPartition]) -> None:
    """Revoke the partitions: the callback of a rebalance. With a callback, a rebalance happens in
    `consume`. Without one, it may happen while a batch is billed, and the offsets of the batch
    would be committed in the next generation."""
    consumer.unassign()


def bill(producer: Producer, consumer: Consumer, messages: list[Message], *, spoil: bool) -> None:
    producer.begin_transaction()
    for message in messages:
        value = message.value()
        assert value is not None
        purchase = Purchase.decode(value)
        producer.produce(INVOICES, invoice(purchase), message.key())
        producer.produce(SHIPMENTS, shipment(purchase), message.key())
    offsets, metadata = next_offsets(messages), consumer.consumer_group_metadata()
    until_done(lambda: producer.send_offsets_to_transaction(offsets, metadata, 10))
    if spoil:
        until_done(lambda: producer.abort_transaction(10))
        rewind(consumer)
        print(f"aborted {len(messages)}", flush=True)
    else:
        until_done(lambda: producer.commit_transaction(10))
        print(f"committed {len(messages)}", flush=True)


def until_done(step: Callable[[], None]) -> None:
    """Repeat a step of a transaction after each retriable error, for example a timeout, as
    librdkafka requires. Raises KafkaException with any other error."""
    while True:
        try:
            step()
            return
        except KafkaException as error:
            if not error.args[0].retriable():
                raise


def main(servers: str, number: int) -> None:
    stopping = False

    def stop(*_: object) -> None:
        nonlocal stopping
        stopping = True

    signal.signal(signal.SIGTERM, stop)
    # A single broker restarts at its old address, so clients need no new bootstrap (KIP-899). With
    # a new bootstrap, librdkafka 2.16 loses connections that it still needs.
    common = {"bootstrap.servers": servers, "metadata.recovery.strategy": "none"}
    consumer = Consumer(
        {
            **common,
            "group.id": GROUP,
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "session.timeout.ms": 6_000,
        }
    )
    producer = Producer({**common, "transactional.id": f"{GROUP}-{number}"})
    producer.init_transactions(30)
    consumer.subscribe([PURCHASES], on_assign=assigned, on_revoke=revoked)
    done = 0
    while not stopping:
        messages = next_messages(consumer)
        if not messages:
            continue
        done += 1
        try:
            bill(producer, consumer, messages, spoil=done % ABORT_EVERY == 0)
        except KafkaException as error:
            # `produce` reports only _STATE if the transaction has already failed.
            reason = error.args[0]
            if not reason.txn_requires_abort() and reason.code() != KafkaError._STATE:
                raise
            until_done(lambda: producer.abort_transaction(10))
            rewind(consumer)
    consumer.close()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
