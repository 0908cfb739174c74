"""A copier process. It copies the input to the output in transactions, and aborts some on purpose.

`python -m tests.torture.copier SETTINGS NUMBER SEED`. SETTINGS is a JSON file with the address of
the broker and the login, as settings of librdkafka. The process ends with code 3 if its producer
cannot continue (it is fenced, or librdkafka reports a fatal error). Its supervisor then starts the
next instance.
"""

from __future__ import annotations

import json
import random
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

INPUT, OUTPUT, GROUP = "torture-input", "torture-output", "torture-copiers"
# The beginning of all transactional ids.
TRANSACTIONAL_IDS = "torture-copier-"
RECORDS_PER_TRANSACTION = 20
ABORT_PROBABILITY = 0.1
CALL_TIMEOUT_S = 5.0
STUCK_AFTER_S = 30
FATAL_EXIT_CODE = 3

# A killed broker restarts soon, but the default back-off grows to 10 s.
RECONNECT: Mapping[str, Any] = {
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "topic.metadata.refresh.interval.ms": 1000,
    # A broker restarts at its old address, so clients need no new bootstrap (KIP-899). With a new
    # bootstrap, librdkafka 2.16 loses the connection that the offsets of a transaction wait for.
    "metadata.recovery.strategy": "none",
    "log_level": 0,
}


class MustAbort(Exception):
    """The transaction cannot be committed. The producer can continue after an abort."""


def insist(call: Callable[..., Any], *arguments: Any) -> Any:
    """Repeat a call until the broker responds. Raises MustAbort, or KafkaException for a fatal
    error. SIGALRM ends the process after STUCK_AFTER_S.

    In `send_offsets_to_transaction`, librdkafka 2.16 asks three times for the group's coordinator,
    within less than a second. If there is no coordinator yet, the call does not return before some
    connection is made or closed, whatever the timeout of the call.
    """
    signal.alarm(STUCK_AFTER_S)
    try:
        return _repeated(call, *arguments)
    finally:
        signal.alarm(0)


def _repeated(call: Callable[..., Any], *arguments: Any) -> Any:
    while True:
        try:
            return call(*arguments, CALL_TIMEOUT_S)
        except KafkaException as error:
            reason = error.args[0]
            if reason.txn_requires_abort():
                raise MustAbort(reason.str()) from error
            if not reason.retriable():
                raise


def _noted(consumer: Consumer, partitions: Sequence[TopicPartition]) -> None:
    """Do nothing. With callbacks, a rebalance happens in `consume` only. Without them it may happen
    at any time, and offsets of earlier records would be committed in the next generation."""


class Copier:
    """Copies every record of its input partitions to the same partition of the output."""

    def __init__(self, settings: Mapping[str, Any], number: int, randomness: random.Random) -> None:
        self._randomness = randomness
        common = {**settings, **RECONNECT}
        self._consumer = Consumer(
            {
                **common,
                "group.id": GROUP,
                # A static member, so that the next instance takes the place of a killed one at
                # once. The session of a dead member starts again with each start of the broker.
                # Under frequent kills it would never end.
                "group.instance.id": f"torture-copier-{number}",
                "enable.auto.commit": False,
                # The group has an offset for every partition from the start (`begin_group`). If
                # librdkafka 2.16 looks up the earliest offset and the response comes after a
                # rebalance, it moves the new position to that offset half a second later.
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "session.timeout.ms": 3000,
                "heartbeat.interval.ms": 200,
                "fetch.wait.max.ms": 50,
            }
        )
        self._producer = Producer(
            {
                **common,
                "transactional.id": f"{TRANSACTIONAL_IDS}{number}",
                "transaction.timeout.ms": 10_000,
                "linger.ms": 1,
                # The transaction has several batches in flight, as in Kafka's own copier.
                "batch.size": 512,
            }
        )

    def run(self) -> None:
        """Copy until killed. Raises KafkaException if this instance cannot continue."""
        insist(self._producer.init_transactions)
        self._consumer.subscribe([INPUT], on_assign=_noted, on_revoke=_noted)
        while True:
            polled = self._consumer.consume(RECORDS_PER_TRANSACTION, 0.2)
            self._look_for_fatal(polled)
            messages = [message for message in polled if message.error() is None]
            if messages:
                self._copy(messages)

    def _look_for_fatal(self, polled: Sequence[Any]) -> None:
        """Raise the producer's fatal error. The coordinator may forget a static member and its
        member id, if the member died while it joined. The next instance is then fenced and must
        start again. This is the same with Kafka."""
        for message in polled:
            error = message.error()
            if error is not None and (error.fatal() or error.code() == KafkaError._FATAL):
                raise KafkaException(error)

    def _copy(self, messages: Sequence[Any]) -> None:
        self._producer.begin_transaction()
        try:
            next_offsets: dict[int, int] = {}
            for message in messages:
                self._producer.produce(OUTPUT, message.value(), partition=message.partition())
                next_offsets[message.partition()] = message.offset() + 1
            if self._randomness.random() < ABORT_PROBABILITY:
                raise MustAbort("on purpose")
            places = [TopicPartition(INPUT, *place) for place in next_offsets.items()]
            metadata = self._consumer.consumer_group_metadata()
            insist(self._producer.send_offsets_to_transaction, places, metadata)
            insist(self._producer.commit_transaction)
        except MustAbort:
            insist(self._producer.abort_transaction)
            self._rewind()

    def _rewind(self) -> None:
        """Read again from the committed offsets, because an abort does not rewind the consumer."""
        assigned = self._consumer.assignment()
        while assigned:
            try:
                for place in self._consumer.committed(assigned, CALL_TIMEOUT_S):
                    if place.error is not None:
                        raise KafkaException(place.error)
                    self._consumer.seek(place)
                return
            except KafkaException as error:
                if error.args[0].fatal():
                    raise
                # The broker is unavailable, or a rebalance revoked the partition; a later rewind
                # handles this. Only the next poll returns a fatal error, and only once.
                message = self._consumer.poll(0)
                self._look_for_fatal([] if message is None else [message])
                assigned = self._consumer.assignment()


def main() -> int:
    """Run the process."""
    settings, number, seed = sys.argv[1:]
    try:
        Copier(json.loads(Path(settings).read_text()), int(number), random.Random(seed)).run()
    except KafkaException as error:
        sys.stderr.write(f"copier {number}: {error}\n")
    return FATAL_EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
