"""A transactional copy loop of librdkafka clients with a login, and readers of what it has done."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Producer, TopicPartition

from tests.harness.waiting import wait_until
from tests.security.secured_broker import USER, SecuredOncelog

INPUT, OUTPUT, GROUP = "input", "output", "copiers"
RECORDS_PER_TRANSACTION: Final = 20
# Every tenth transaction is aborted, and its records are copied by the next one.
ABORTED: Final = 10
# A feeder on a busy computer is faster than the copier. It waits for the copier, so that the end of
# the loop takes no longer than these records.
BACKLOG: Final = 400
CALL_S: Final = 20.0


class CopyLoop:
    """Feeds the input and copies it, each in a thread. `fed` is the number of acknowledged records,
    `copied` that of committed copies.
    An authentication that the broker refuses is no failure, because the clients try again."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.fed = self.copied = self.commits = 0
        self.failures: list[str] = []
        self._may_feed = self._may_copy = True
        self._feeder = Producer({**settings, "enable.idempotence": True, "linger.ms": 2})
        self._producer = Producer({**settings, "transactional.id": "copier", "linger.ms": 1})
        self._consumer = Consumer(
            {
                **settings,
                "group.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "fetch.wait.max.ms": 50,
            }
        )
        self._threads = [
            threading.Thread(target=self._run, args=(step,), daemon=True)
            for step in (self._feed, self._copy)
        ]
        for thread in self._threads:
            thread.start()

    def change_password(self, password: str) -> None:
        for client in (self._feeder, self._producer, self._consumer):
            client.set_sasl_credentials(USER, password)

    def has_committed(self, before: int) -> Callable[[], bool]:
        """Return a condition: the loop has committed more transactions than `before`, or failed."""
        return lambda: self.commits > before or bool(self.failures)

    def finish(self, committed: Callable[[], int]) -> None:
        """Stop the feeder, copy the rest of the input, and close. `committed` returns the offset of
        the group."""
        self._may_feed = False
        self._threads[0].join()
        wait_until(lambda: self.failures or committed() == self.fed, "all records are copied")
        self._may_copy = False
        self._threads[1].join()
        self._consumer.close()

    def _run(self, steps: Callable[[], None]) -> None:
        try:
            steps()
        except Exception as error:
            self.failures.append(repr(error))

    def _feed(self) -> None:
        number = 0
        while self._may_feed:
            if number - self.copied > BACKLOG:
                self._feeder.poll(0.005)
                continue
            self._feeder.produce(INPUT, f"{number:06}", on_delivery=self._delivered)
            self._feeder.poll(0.005)
            number += 1
        if self._feeder.flush(CALL_S):
            self.failures.append("records without a response")

    def _delivered(self, error: Any, _: Any) -> None:
        if error is None:
            self.fed += 1
        else:
            self.failures.append(str(error))

    def _copy(self) -> None:
        self._producer.init_transactions(CALL_S)
        self._consumer.subscribe([INPUT])
        transactions = 0
        while self._may_copy:
            polled = self._consumer.consume(RECORDS_PER_TRANSACTION, 0.1)
            errors = [record.error() for record in polled if record.error()]
            self.failures += [
                str(error) for error in errors if error.code() != KafkaError._AUTHENTICATION
            ]
            records = [record for record in polled if record.error() is None]
            if not records:
                continue
            if transactions % ABORTED == 0:
                self._transfer(records, aborts=True)
            while not self._is_transferred(records):
                self._producer.abort_transaction(CALL_S)
            transactions += 1

    def _is_transferred(self, records: list[Any]) -> bool:
        """Copy the records in one transaction. Return False if the broker has refused an
        authentication meanwhile, and the transaction must be aborted."""
        try:
            self._transfer(records, aborts=False)
        except KafkaException as raised:
            error = raised.args[0]
            if error.code() != KafkaError._AUTHENTICATION or not error.txn_requires_abort():
                raise
            return False
        return True

    def _transfer(self, records: list[Any], *, aborts: bool) -> None:
        self._producer.begin_transaction()
        for record in records:
            self._producer.produce(OUTPUT, record.value())
        if aborts:
            self._producer.flush(CALL_S)
            self._producer.abort_transaction(CALL_S)
            return
        places = self._consumer.position(self._consumer.assignment())
        group = self._consumer.consumer_group_metadata()
        self._producer.send_offsets_to_transaction(places, group, CALL_S)
        self._producer.commit_transaction(CALL_S)
        self.copied += len(records)
        self.commits += 1


def committed(broker: SecuredOncelog) -> int:
    """Return the committed offset of the copiers. A call of the copier's own consumer would wait
    forever, because the consumer polls in another thread."""
    reader = Consumer(
        {"bootstrap.servers": broker.address_of("PLAINTEXT"), "group.id": GROUP, "log_level": 0}
    )
    try:
        (place,) = reader.committed([TopicPartition(INPUT, 0)], CALL_S)
    finally:
        reader.close()
    return int(place.offset)


def copied(broker: SecuredOncelog) -> list[str]:
    """Return the committed records of the output, in their order."""
    reader = Consumer(
        {
            "bootstrap.servers": broker.address_of("PLAINTEXT"),
            "group.id": "reader",
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
        }
    )
    reader.subscribe([OUTPUT])
    values: list[str] = []
    while (record := reader.poll(CALL_S)) is not None and record.error() is None:
        values.append(record.value().decode())
    reader.close()
    return values
