"""Avro records with Confluent's serializers and a schema registry.

`write` writes transactions without end. Each transaction registers a new schema and writes records
of it. After a restart, it continues after the last committed transaction. SIGTERM ends it after a
transaction, and its last line is the number of transactions.

`read` prints a line for each committed record, decoded, and a line for each schema of the registry.

Arguments: `write` or `read`, the address of a broker, the URL of a registry and the URL that says
whether the registry is ready.
"""

from __future__ import annotations

import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import httpx
from confluent_kafka import (
    OFFSET_BEGINNING,
    Consumer,
    KafkaException,
    Message,
    Producer,
    TopicPartition,
)
from confluent_kafka.schema_registry import (
    RegisteredSchema,
    Schema,
    SchemaRegistryClient,
    SchemaRegistryError,
    record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

RECORDS = "records"
# A row for each schema that a committed transaction has used, in the same transaction.
SCHEMAS = "schemas"
PARTITIONS = {RECORDS: 2, SCHEMAS: 1}
VERSIONS = 8
PARTS = 10
PAUSE_S = 0.05
RETRY_S = 0.1
TIMEOUT_S = 30.0
SUBJECTS = {"subject.name.strategy": record_subject_name_strategy}
CONTEXT = SerializationContext(RECORDS, MessageField.VALUE)


def schema_of(number: int) -> str:
    """Return the schema of a transaction. Each subject has VERSIONS versions, and each version has
    one field more than the version before."""
    subject, version = divmod(number, VERSIONS)
    fields: list[dict[str, object]] = [
        {"name": "number", "type": "long"},
        {"name": "part", "type": "int"},
    ]
    for field in range(version):
        fields.append({"name": f"added_{field}", "type": "string", "default": ""})
    schema = {"type": "record", "name": f"Purchase{subject}", "namespace": "test", "fields": fields}
    # The registry shows a schema without spaces.
    return json.dumps(schema, separators=(",", ":"))


def record_of(number: int, part: int) -> dict[str, object]:
    added = {f"added_{field}": f"{number}-{field}" for field in range(number % VERSIONS)}
    return {"number": number, "part": part, **added}


def write(address: str, url: str, ready: str) -> None:
    ending = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: ending.set())
    registry = SchemaRegistryClient({"url": url})
    producer = Producer(
        {
            "bootstrap.servers": address,
            "transactional.id": "purchases",
            "reconnect.backoff.max.ms": 200,
            "log_level": 0,
        }
    )
    producer.init_transactions()
    wait_until_ready(ready)
    number = sum(1 for _ in committed(address, SCHEMAS))
    while not ending.wait(PAUSE_S):
        while not wrote(producer, registry, ready, number):
            until_done(producer.abort_transaction)
        number += 1
    say("written", number)


def wrote(producer: Producer, registry: SchemaRegistryClient, ready: str, number: int) -> bool:
    """Write a transaction. Return False if it is to be aborted. Raises KafkaException if only a
    new producer can continue."""
    schema = schema_of(number)
    serializer = AvroSerializer(registry, schema, conf=SUBJECTS)
    try:
        producer.begin_transaction()
        for part in range(PARTS):
            key, value = str(part), record_of(number, part)
            encoded = until_registered(ready, partial(serializer, value, CONTEXT))
            producer.produce(RECORDS, encoded, key)
        name = f"test.{json.loads(schema)['name']}"
        # The identifier within the encoded record, after the magic byte.
        used = int.from_bytes(encoded[1:5], "big")
        lookup = partial(registry.lookup_schema, name, Schema(schema, "AVRO"))
        found = until_registered(ready, lookup)
        assert (found.version, found.schema_id) == (number % VERSIONS + 1, used), found
        producer.produce(SCHEMAS, line_of(found))
        until_done(producer.commit_transaction)
    except KafkaException as failure:
        if failure.args[0].txn_requires_abort():
            return False
        raise
    return True


def line_of(registered: RegisteredSchema) -> str:
    row = [registered.subject, registered.version, registered.schema_id]
    return json.dumps(["schema", *row, registered.schema.schema_str])


def until_registered(ready: str, call: Callable[[], Any]) -> Any:
    """Return the result of a call of the registry. Repeat it while the registry is down."""
    while True:
        try:
            return call()
        except httpx.TransportError as failure:
            say("no registry:", failure)
        except SchemaRegistryError as failure:
            say("refused:", failure)
            if failure.http_status_code < httpx.codes.INTERNAL_SERVER_ERROR:
                raise
        wait_until_ready(ready)


def wait_until_ready(ready: str) -> None:
    """Return once the registry has read its journal. Before that, it accepts requests, knows only
    the older schemas, and would register a known schema again as another version."""
    while True:
        try:
            if httpx.get(ready, timeout=TIMEOUT_S).is_success:
                return
        except httpx.TransportError:
            pass
        time.sleep(RETRY_S)


def until_done(call: Callable[[], None]) -> None:
    """Call the end of a transaction. Repeat it while its result is unknown."""
    while True:
        try:
            return call()
        except KafkaException as failure:
            if not failure.args[0].retriable():
                raise


def committed(address: str, topic: str) -> Iterator[Message]:
    """Yield the committed records of a topic. Raises KafkaException."""
    settings = {
        "bootstrap.servers": address,
        "group.id": "purchases",
        "isolation.level": "read_committed",
        "enable.auto.commit": False,
        "log_level": 0,
    }
    with closing(Consumer(settings)) as consumer:
        places = [TopicPartition(topic, number) for number in range(PARTITIONS[topic])]
        ends = [consumer.get_watermark_offsets(place, TIMEOUT_S)[1] for place in places]
        rest = [
            (TopicPartition(topic, place.partition, OFFSET_BEGINNING), end)
            for place, end in zip(places, ends, strict=True)
            if end
        ]
        assigned = [place for place, _ in rest]
        consumer.assign(assigned)
        while any(
            place.offset < end
            for place, (_, end) in zip(consumer.position(assigned), rest, strict=True)
        ):
            for message in consumer.consume(500, 1):
                if message.error():
                    raise KafkaException(message.error())
                yield message


def say(*words: object) -> None:
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def read(address: str, url: str, ready: str) -> None:
    wait_until_ready(ready)
    registry = SchemaRegistryClient({"url": url})
    deserializer = AvroDeserializer(registry, conf=SUBJECTS)
    for message in committed(address, RECORDS):
        record = deserializer(message.value(), CONTEXT)
        assert isinstance(record, dict), record
        number, part = record["number"], record["part"]
        assert record == record_of(number, part), record
        say(json.dumps(["record", number, part]))
    for subject in registry.get_subjects():
        for version in registry.get_versions(subject):
            say(line_of(registry.get_version(subject, version)))


if __name__ == "__main__":
    {"write": write, "read": read}[sys.argv[1]](*sys.argv[2:])
