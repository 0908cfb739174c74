"""A data directory that Apache Kafka wrote. oncelog refuses to start on the directory and does not
change it. Kafka then still serves all its data."""

from __future__ import annotations

from functools import partial

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from tests.faults.folders import fingerprint
from tests.faults.recoveries import run
from tests.harness.broker import Oncelog
from tests.harness.driving import (
    EARLIEST,
    create,
    end_offset,
    last_stable_offset,
    list_offset,
    refusal,
    values,
)
from tests.harness.kafka.kafka import Kafka
from tests.harness.transacting import commit_offset, committed_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    BUSY,
    batch,
    end_transaction,
    find_coordinator,
    new_identity,
    produce,
)

TOPICS = ("orders", "payments", "stock")


def _is_led(wire: Wire, topic: str) -> bool:
    return list_offset(wire, topic, EARLIEST)[0] == ErrorCode.NONE


def _served(kafka: Kafka) -> tuple[dict[str, list[bytes]], tuple[int, int]]:
    """Return the committed records and the group's offset."""
    with Wire(kafka.address) as wire:
        find_coordinator(wire, "orders", key_type=0)
        # A restarted node becomes leader of one partition after another.
        for topic in TOPICS:
            wait_until(partial(_is_led, wire, topic), f"a leader of {topic}")
            wait_until(partial(_is_decided, wire, topic), f"the markers of {topic}")
        records = {topic: values(wire, topic) for topic in TOPICS}
        wait_until(partial(_has_offset, wire), "the coordinator of the group")
        return records, committed_offset(wire, "orders", stable=True)


def _is_decided(wire: Wire, topic: str) -> bool:
    """Return True if no transaction is open. Kafka responds to EndTxn before it writes markers."""
    return last_stable_offset(wire, topic) == end_offset(wire, topic)


def _has_offset(wire: Wire) -> bool:
    code = committed_offset(wire, "orders", stable=True)[1]
    return code not in {*BUSY, ErrorCode.UNSTABLE_OFFSET_COMMIT}


def test_a_directory_of_apache_kafka_is_refused_and_kafka_can_still_serve_it(
    fresh_kafka: Kafka,
) -> None:
    with Wire(fresh_kafka.address) as wire:
        create(wire, *TOPICS)
        for number, topic in enumerate(TOPICS):
            producer = new_identity(wire, f"id-{topic}", version=4)
            sent = produce(wire, topic, batch(producer, 0, 3, b"%d" % number), producer=producer)
            assert sent.error_code == ErrorCode.NONE, ErrorCode(sent.error_code)
            if topic == "orders":
                find_coordinator(wire, "orders", key_type=0)
                assert commit_offset(wire, producer, "orders", 3) == ErrorCode.NONE
            end_transaction(wire, producer, commit=topic != "stock")
    before = _served(fresh_kafka)
    assert [len(before[0][topic]) for topic in TOPICS] == [3, 3, 0]
    assert before[1] == (3, ErrorCode.NONE)
    fresh_kafka.stop()
    folder = fingerprint(fresh_kafka.data)
    place = ("--data", str(fresh_kafka.data))
    oncelog = Oncelog(fresh_kafka.directory / "oncelog", arguments=place)
    said = refusal(oncelog)
    for words in ("meta.properties", "version=1", "__cluster_metadata-0", "orders-0", "--data"):
        assert words in said, said
    recovered = run("recover", *place, "--yes")
    assert recovered.exit_code == 1
    assert fingerprint(fresh_kafka.data) == folder
    fresh_kafka.start()
    assert _served(fresh_kafka) == before
