"""oncelog compacts a topic with transactions to the same records as Kafka, and Kafka's dump tool
finds no error in the result (L11)."""

from __future__ import annotations

import random
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.conformance.clients import Client, Record
from tests.conformance.clients.interface import Received
from tests.conformance.conftest import Target, create_topic
from tests.conformance.test_dump import dump
from tests.harness.kafka.driver import JavaDriver
from tests.harness.waiting import wait_until

# Kafka's minimum segment size: about a hundred batches of 10 to 15 kB fill a segment.
SETTINGS = {
    "cleanup.policy": "compact",
    "segment.bytes": "1048576",
    "min.cleanable.dirty.ratio": "0.001",
    "delete.retention.ms": "60000",
}
KEYS = 5
TRANSACTIONS = 240
CODECS = ("none", "gzip", "snappy", "lz4", "zstd")


def padded(number: int) -> bytes:
    """Return a value of about 15 kB. Every codec shortens it to about 10 kB."""
    return b"%d:" % number + random.Random(number).randbytes(10_000) + bytes(5_000)


@dataclass(frozen=True, slots=True)
class Compacted:
    """The folder of the partition, and the offsets of the two records of each transaction."""

    directory: Path
    offsets: list[tuple[int, ...]]

    def closed(self, suffix: str) -> list[Path]:
        """Return the files with this suffix of all segments before the active one."""
        active = max(int(log.stem) for log in self.directory.glob("*.log"))
        files = sorted(self.directory.glob(f"*{suffix}"))
        return [file for file in files if int(file.stem) < active]


@pytest.fixture
def compacted(
    target: Target, python_clients: dict[str, Client], admin: Any, name: str
) -> Compacted:
    """A topic that is compacted up to its last segment."""
    create_topic(admin, name, config=SETTINGS)
    client = python_clients["confluent-kafka"]
    producers = []
    offsets = []
    for codec in CODECS:
        producer = client.producer(target.address, transactional_id=f"{name}-{codec}", codec=codec)
        producer.init_transactions()
        producers.append(producer)
    for number in range(TRANSACTIONS):
        producer = producers[number % len(producers)]
        producer.begin()
        key = b"key-%d" % (number % KEYS)
        once = Record(b"once", key=b"%d" % number)
        sent = producer.send(name, [Record(padded(number), key=key), once])
        offsets.append(tuple(offset for _, offset in sent))
        producer.commit() if number % 3 else producer.abort()
    directory = target.data / f"{name}-0"
    checkpoint = target.data / "cleaner-offset-checkpoint"

    def cleaned_up_to_the_last_segment() -> bool:
        active = max(int(log.stem) for log in directory.glob("*.log"))
        text = checkpoint.read_text() if checkpoint.exists() else ""
        return active > 0 and f"\n{name} 0 {active}\n" in text

    wait_until(cleaned_up_to_the_last_segment, "the topic is compacted")
    return Compacted(directory, offsets)


def test_l11_compaction_keeps_committed_records_with_their_offsets_and_no_aborted_ones(
    compacted: Compacted,
    target: Target,
    python_clients: dict[str, Client],
    java_driver: JavaDriver,
    name: str,
) -> None:
    size = sum(log.stat().st_size for log in compacted.directory.glob("*.log"))
    assert size < TRANSACTIONS * 10_000 / 2, "compaction removed too few records"
    committed = [number for number in range(TRANSACTIONS) if number % 3]
    consumer = python_clients["confluent-kafka"].consumer(
        target.address, name, partitions=(0,), read_committed=True
    )
    kept: list[Received] = []

    def has_read_all() -> bool:
        kept.extend(consumer.poll(0.2))
        return any(record.key == b"%d" % committed[-1] for record in kept)

    wait_until(has_read_all, "the consumer has read the last committed record")
    once = [record for record in kept if record.value == b"once"]
    assert [record.key for record in once] == [b"%d" % number for number in committed]
    assert [record.offset for record in once] == [
        compacted.offsets[number][1] for number in committed
    ], "compaction changed offsets"
    latest = {record.key: record.value for record in kept if record.value != b"once"}
    assert latest == {b"key-%d" % (number % KEYS): padded(number) for number in committed}

    logs = compacted.closed(".log")
    printed = java_driver.tool(
        "dump-log", "--deep-iteration", "--files", ",".join(map(str, logs))
    ).stdout
    assert "isvalid: false" not in printed
    offsets = [int(found) for found in re.findall(r"^\| offset: (\d+)", printed, re.MULTILINE)]
    assert offsets == sorted(set(offsets))
    aborted = {
        offset for number in range(0, TRANSACTIONS, 3) for offset in compacted.offsets[number]
    }
    assert not aborted & set(offsets), "compaction kept aborted records"
    assert "endTxnMarker: COMMIT" in printed
    for codec in CODECS:
        assert f"compresscodec: {codec} " in printed
    for suffix in (".index", ".timeindex"):
        for file in compacted.closed(suffix):
            checked = dump(java_driver, file, options=("--index-sanity-check",))
            assert "passed sanity check" in checked
            dump(java_driver, file, options=("--verify-index-only",))
    dump(
        java_driver, *logs, *compacted.closed(".txnindex"), *compacted.directory.glob("*.snapshot")
    )
