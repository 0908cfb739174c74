"""Kafka's dump tool reads every kind of file of the broker under test without an error."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from oncelog.testing.wire import Wire
from oncelog_server.coordinator.routing import partition_for
from oncelog_server.offline.commands import dump as dump_command
from tests.conformance.clients import Client, Record
from tests.conformance.conftest import Target, create_topic
from tests.conformance.polling import read
from tests.harness.kafka.driver import JavaDriver
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until

COMPLAINTS = ("mismatch", "invalid", "corrupt", "exception", "could not", "non-consecutive")
# Batches of about 10 kB. About a hundred of them fill a segment of Kafka's minimum size.
PADDING = b"p" * 10_000
SEGMENT_BYTES = 1_048_576


def log_with(target: Target, topic: str, text: str) -> Path:
    """Return the log that contains `text`, among the logs of the partitions of `topic`."""
    found = [
        log for log in target.data.glob(f"{topic}-*/*.log") if text.encode() in log.read_bytes()
    ]
    assert len(found) == 1, found
    return found[0]


def in_smallest(target: Target, topic: str, name: str) -> str:
    """Return an id, made from `name`, in the smallest partition of an internal topic. Other
    tests have transactions of thousands of partitions, and Kafka's tool takes minutes to print
    them."""
    sizes = {
        int(log.parent.name.rpartition("-")[2]): log.stat().st_size
        for log in target.data.glob(f"{topic}-*/*.log")
    }
    if not sizes:  # the topic does not exist yet
        return name
    smallest = min(sizes, key=lambda index: sizes[index])
    names = (f"{name}-{number}" for number in range(1_000))
    return next(found for found in names if partition_for(found, len(sizes)) == smallest)


def records_of(transactional_id: str, printed: str) -> str:
    """Return the printed records of the id. The partition may have records of other ids."""
    own = f'"transactionalId":"{transactional_id}"'
    return "\n".join(line for line in printed.splitlines() if own in line)


def dump(java_driver: JavaDriver, *files: Path, options: tuple[str, ...] = ()) -> str:
    """Return the tool's output for the files. Fails if the tool reports an error."""
    names = ",".join(str(file) for file in files)
    result = java_driver.tool("dump-log", *options, "--files", names)
    printed = result.stdout + result.stderr.replace("Driver$Exited", "").replace("null\n", "")
    lowered = printed.lower()
    assert not [word for word in COMPLAINTS if word in lowered], printed[-3000:]
    return printed


@pytest.fixture
def rolled(
    target: Target, python_clients: dict[str, Client], admin: Any, wire: Wire, name: str
) -> Path:
    """A partition with two segments. In the first segment, every second transaction is aborted."""
    config = {"segment.bytes": str(SEGMENT_BYTES), "index.interval.bytes": "4096"}
    create_topic(admin, name, config=config)
    producer = python_clients["confluent-kafka"].producer(target.address, transactional_id=name)
    producer.init_transactions()
    for number in range(120):
        producer.begin()
        producer.send(name, [Record(b"%d" % number + PADDING, key=b"k")])
        producer.commit() if number % 2 else producer.abort()
    directory = target.data / f"{name}-0"
    # Kafka responds before it has written the last marker.
    wait_until(lambda: last_stable_offset(wire, name) == (240, 240), "everything is decided")
    wait_until(lambda: len(list(directory.glob("*.log"))) > 1, "the segment rolls")
    wait_until(lambda: list(directory.glob("*[1-9].snapshot")), "the roll leaves a snapshot")
    return directory


def test_segments_and_their_indexes(rolled: Path, java_driver: JavaDriver) -> None:
    """The tool reads the log, the offset index, the time index, the index of aborted transactions
    and the producer snapshot."""
    logs = sorted(rolled.glob("*.log"))
    first = logs[0]
    printed = dump(java_driver, *logs)
    assert printed.count("isTransactional: true isControl: false") == 120
    assert printed.count("isTransactional: true isControl: true") == 120
    # With --deep-iteration the tool reports an error for every segment that does not begin at
    # offset 0.
    deep = dump(java_driver, first, options=("--deep-iteration",))
    assert deep.count("endTxnMarker: COMMIT") > 40
    assert deep.count("endTxnMarker: ABORT") > 40
    assert "offset: 205 position: 1045674\n" in dump(java_driver, first.with_suffix(".index"))
    assert "timestamp: " in dump(java_driver, first.with_suffix(".timeindex"))
    for kind in (".index", ".timeindex"):
        checked = dump(java_driver, first.with_suffix(kind), options=("--index-sanity-check",))
        assert "passed sanity check" in checked
        dump(java_driver, first.with_suffix(kind), options=("--verify-index-only",))
    aborted = dump(java_driver, first.with_suffix(".txnindex"))
    assert " firstOffset: 0 lastOffset: 1 lastStableOffset: 2\n" in aborted
    snapshots = sorted(rolled.glob("*.snapshot"))
    assert "producerId: " in dump(java_driver, *snapshots)
    (rolled / "leader-epoch-checkpoint").read_text().index("0\n1\n0 0")
    assert "topic_id: " in (rolled / "partition.metadata").read_text()


def test_batches_of_every_codec(
    target: Target, python_clients: dict[str, Client], java_driver: JavaDriver, topic: str
) -> None:
    """Compressed batches are on disk as the producer sent them, with a valid CRC."""
    codecs = ("none", "gzip", "snappy", "lz4", "zstd")
    records = [Record(b"%d" % number * 50, headers=(("h", b"v"),)) for number in range(100)]
    for codec in codecs:
        client = python_clients["confluent-kafka"]
        client.producer(target.address, codec=codec).send(topic, records)
    log = target.data / f"{topic}-0" / f"{0:020}.log"
    printed = dump(java_driver, log, options=("--deep-iteration", "--print-data-log"))
    for codec in codecs:
        assert f"compresscodec: {codec} " in printed
    assert printed.count("isvalid: true") >= len(codecs)
    assert printed.count("headerKeys: [h]") == 500


def test_the_tool_decodes_the_records_of_both_coordinators(
    target: Target, python_clients: dict[str, Client], java_driver: JavaDriver, topic: str
) -> None:
    """The tool's decoders read `__transaction_state` and `__consumer_offsets`."""
    client = python_clients["confluent-kafka"]
    group = in_smallest(target, "__consumer_offsets", topic)
    transactional_id = in_smallest(target, "__transaction_state", topic)
    client.producer(target.address).send(topic, [Record(b"v")] * 5)
    consumer = client.consumer(target.address, topic, group=group)
    read(consumer, 5)
    consumer.commit({0: 2})
    producer = client.producer(target.address, transactional_id=transactional_id)
    producer.init_transactions()
    producer.begin()
    producer.send(topic, [Record(b"out", partition=1)])
    producer.send_offsets({0: 4}, consumer)
    producer.commit()

    def decided() -> str:
        log = log_with(target, "__transaction_state", transactional_id)
        printed = dump(java_driver, log, options=("--transaction-log-decoder",))
        return records_of(transactional_id, printed)

    wait_until(lambda: '"transactionStatus":4' in decided(), "CompleteCommit is written")
    printed = decided()
    for status in (0, 1, 2, 4):
        assert f'"transactionStatus":{status}' in printed, status
    log = log_with(target, "__consumer_offsets", group)
    printed = dump(java_driver, log, options=("--offsets-decoder",))
    assert f'"group":"{group}","topic":"{topic}","partition":0' in printed
    for offset in (2, 4):
        assert f'"offset":{offset},' in printed
    assert '"protocolType":"consumer"' in printed
    assert "endTxnMarker: COMMIT" in printed


def ours(*arguments: str) -> list[str]:
    """Return the lines that `oncelog logs dump` prints."""
    result = CliRunner().invoke(dump_command, arguments)
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()


def same_lines(java_driver: JavaDriver, files: list[Path], *options: str) -> None:
    """Check that both tools print the same lines for these files."""
    names = ",".join(map(str, files))
    theirs = java_driver.tool("dump-log", *options, "--files", names).stdout.splitlines()
    assert ours(*options, "--files", names) == theirs


def test_our_dump_prints_the_lines_of_kafkas_tool(rolled: Path, java_driver: JavaDriver) -> None:
    """For every file of a partition, our dump prints the same lines, with and without
    `--deep-iteration`, whether Kafka or oncelog wrote the file."""
    files = [
        file
        for suffix in ("log", "index", "timeindex", "txnindex", "snapshot")
        for file in sorted(rolled.glob(f"*.{suffix}"))
        # Leave out the indexes of the open segment: they are incomplete, and Kafka pads them with
        # zeros.
        if suffix in ("log", "snapshot") or file.stem == f"{0:020}"
    ]
    assert len({file.suffix for file in files}) == 5
    same_lines(java_driver, files)
    logs = [file for file in files if file.suffix == ".log"]
    same_lines(java_driver, logs, "--deep-iteration")
    same_lines(java_driver, logs, "--print-data-log")
    same_lines(java_driver, logs, "--print-data-log", "--skip-record-metadata")
    same_lines(java_driver, logs, "--max-bytes", "50000")
    indexes = [rolled / f"{0:020}{suffix}" for suffix in (".index", ".timeindex")]
    for option in ("--index-sanity-check", "--verify-index-only"):
        same_lines(java_driver, indexes, option)


def copied(log: Path, folder: Path) -> Path:
    """Return a copy of a log file in a folder with the partition's name."""
    (folder / log.parent.name).mkdir()
    return Path(shutil.copy(log, folder / log.parent.name))


def test_our_dump_decodes_internal_topics_as_kafkas_tool_does(
    target: Target,
    python_clients: dict[str, Client],
    java_driver: JavaDriver,
    topic: str,
    tmp_path: Path,
) -> None:
    client = python_clients["confluent-kafka"]
    group = in_smallest(target, "__consumer_offsets", topic)
    transactional_id = in_smallest(target, "__transaction_state", topic)
    client.producer(target.address).send(topic, [Record(b"v")] * 5)
    consumer = client.consumer(target.address, topic, group=group)
    read(consumer, 5)
    consumer.commit({0: 2})
    producer = client.producer(target.address, transactional_id=transactional_id)
    producer.init_transactions()
    for commit in (True, False):
        producer.begin()
        producer.send(topic, [Record(b"out", partition=1)])
        producer.send_offsets({0: 4}, consumer)
        producer.commit() if commit else producer.abort()
    log = log_with(target, "__transaction_state", transactional_id)
    decoder = "--transaction-log-decoder"
    wait_until(
        lambda: (
            '"transactionStatus":5'
            in records_of(transactional_id, dump(java_driver, log, options=(decoder,)))
        ),
        "CompleteAbort is written",
    )
    offsets = log_with(target, "__consumer_offsets", group)
    # The test dumps copies, because other producers and groups may write between the two dumps.
    same_lines(java_driver, [copied(log, tmp_path)], decoder)
    same_lines(java_driver, [copied(offsets, tmp_path)], "--offsets-decoder")


def test_the_dump_of_a_folder_has_the_outcome_of_each_transaction(rolled: Path) -> None:
    lines = ours(str(rolled))
    data = [line for line in lines if "isTransactional: true isControl: false" in line]
    outcomes = [line.rpartition("transaction: ")[2] for line in data]
    assert outcomes == ["ABORTED", "COMMITTED"] * 60
