"""A well-behaved client beside the fuzzer. It copies records in transactions and in a group, with
librdkafka, and reads the committed records. It reports every error."""

from __future__ import annotations

import threading
import uuid
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer
from confluent_kafka.admin import AdminClient, NewTopic

RECORDS = 5


class Neighbour(threading.Thread):
    """A thread that runs until `finish`. `errors` has every failure, `rounds` counts the
    transactions that were copied and read."""

    def __init__(self, address: str) -> None:
        super().__init__(daemon=True)
        self.errors: list[str] = []
        self.rounds = 0
        self._address = address
        self._over = threading.Event()
        self._name = f"neighbour-{uuid.uuid4().hex[:8]}"

    def finish(self) -> None:
        """Stop after the current round, and wait for the end of the thread."""
        self._over.set()
        self.join(120)
        if self.is_alive():
            self.errors.append("the neighbour hangs")

    def run(self) -> None:
        try:
            self._work()
        except Exception as error:
            self.errors.append(repr(error))

    def _work(self) -> None:
        common: dict[str, Any] = {
            "bootstrap.servers": self._address,
            "error_cb": self._failed,
            "client.id": "neighbour",
        }
        source, target = f"{self._name}-in", f"{self._name}-out"
        admin = AdminClient(common)
        for made in admin.create_topics([NewTopic(source, 2, 1), NewTopic(target, 2, 1)]).values():
            made.result(60)
        reading = {**common, "isolation.level": "read_committed", "auto.offset.reset": "earliest"}
        copied = Consumer(
            {**reading, "group.id": f"{self._name}-copy", "enable.auto.commit": False}
        )
        audited = Consumer({**reading, "group.id": f"{self._name}-audit"})
        writer = Producer(common)
        copier = Producer({**common, "transactional.id": self._name})
        copier.init_transactions(60)
        copied.subscribe([source])
        audited.subscribe([target])
        try:
            while not self._over.is_set():
                values = [b"%d-%d" % (self.rounds, at) for at in range(RECORDS)]
                for value in values:
                    writer.produce(source, value, on_delivery=self._delivered)
                if writer.flush(60):
                    raise AssertionError("records were not delivered in 60 s")
                messages = self._read(copied, RECORDS)
                copier.begin_transaction()
                for message in messages:
                    copier.produce(target, message.value(), on_delivery=self._delivered)
                copier.send_offsets_to_transaction(
                    copied.position(copied.assignment()), copied.consumer_group_metadata(), 60
                )
                copier.commit_transaction(60)
                seen = sorted(message.value() for message in self._read(audited, RECORDS))
                if seen != sorted(values):
                    raise AssertionError(f"committed {values}, read {seen}")
                self.rounds += 1
        finally:
            copied.close()
            audited.close()

    def _read(self, consumer: Consumer, count: int) -> list[Any]:
        found: list[Any] = []
        for _ in range(600):
            message = consumer.poll(0.1)
            if message is None:
                continue
            error = message.error()
            if error is not None:
                raise AssertionError(f"a consumer got {error}")
            found.append(message)
            if len(found) == count:
                return found
        raise AssertionError(f"{len(found)} of {count} records in 60 s")

    def _failed(self, error: KafkaError) -> None:
        self.errors.append(f"librdkafka says {error}")

    def _delivered(self, error: KafkaError | None, _: Any) -> None:
        if error is not None:
            self.errors.append(f"not delivered: {error}")
