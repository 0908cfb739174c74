"""A full disk. The broker refuses writes with the reason, loses no acknowledged record, completes
every operation or undoes it, and continues when there is space (scenarios D1-D4, D7)."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_records import (
    DeleteRecordsPartition,
    DeleteRecordsRequest,
    DeleteRecordsTopic,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.end_txn import EndTxnRequest
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from oncelog_protocol.records.batch import build_batch
from oncelog_server.metadata.reserve import RESERVE_BYTES
from oncelog_server.storage.layout import METADATA_FILE, METADATA_RESERVE
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import BrokerFailed, Oncelog
from tests.harness.driving import (
    QUICK,
    create,
    created,
    end_offset,
    events,
    fetch,
    last_stable_offset,
    merged,
    values,
)
from tests.harness.waiting import wait_until
from tests.harness.writing import (
    Identity,
    batch,
    end_transaction,
    init_producer_id,
    new_identity,
    produce,
    records,
)

TMPFS_SIZE = "6m"
# Maximum size of a file: more than the metadata at rest, less than three batches.
FILE_BYTES = 150_000
VALUE = b"v" * 60_000
STORAGE_ERROR = ErrorCode.KAFKA_STORAGE_ERROR
# Error codes of an EndTxn without a decision. All are retriable.
TRY_AGAIN = {
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.CONCURRENT_TRANSACTIONS,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
}
# Error codes of an EndTxn when the disk refuses its PREPARE record.
NOT_DECIDED = {ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR}
# One partition, so that all ids are in one file.
ONE_LOG = {"transaction.state.log.num.partitions": "1"}
OFTEN = {"log.retention.check.interval.ms": "100"}


class Disk(Protocol):
    """A disk that can become full and have space again."""

    def fill(self) -> None: ...

    def free(self) -> None: ...


class Tmpfs:
    """A small file system for the data: ENOSPC."""

    def __init__(self, broker: Oncelog) -> None:
        self._filler = broker.data / "filler"

    def fill(self) -> None:
        with self._filler.open("ab", buffering=0) as file, suppress(OSError):
            while True:
                file.write(bytes(4096))

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


class SizeLimit:
    """A limit of file sizes for the process (RLIMIT_FSIZE): EFBIG in the middle of a write."""

    def __init__(self, broker: Oncelog) -> None:
        self._broker = broker

    def fill(self) -> None:
        limits = (FILE_BYTES, resource.RLIM_INFINITY)
        resource.prlimit(self._broker.pid, resource.RLIMIT_FSIZE, limits)

    def free(self) -> None:
        limits = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
        with suppress(BrokerFailed):  # the next process has no limit
            resource.prlimit(self._broker.pid, resource.RLIMIT_FSIZE, limits)


@pytest.fixture
def broker(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Oncelog]:
    if sys.platform != "linux":
        pytest.skip("needs tmpfs and prlimit")
    broker = Oncelog(tmp_path, merged(QUICK, ONE_LOG, OFTEN))
    broker.data.mkdir()
    mounted = getattr(request, "param", Tmpfs) is Tmpfs
    if mounted:
        if os.geteuid() != 0:
            pytest.skip("only root may mount a small tmpfs")
        options = ["-o", f"size={TMPFS_SIZE}"]
        subprocess.run(["mount", "-t", "tmpfs", *options, "tmpfs", broker.data], check=True)
    try:
        broker.start()
        yield broker
    finally:
        broker.kill()
        if mounted:
            subprocess.run(["umount", broker.data], check=True)


@pytest.fixture
def disk(request: pytest.FixtureRequest, broker: Oncelog) -> Disk:
    kind: type[Tmpfs] | type[SizeLimit] = getattr(request, "param", Tmpfs)
    return kind(broker)


BOTH = pytest.mark.parametrize(
    ("broker", "disk"),
    [(Tmpfs, Tmpfs), (SizeLimit, SizeLimit)],
    indirect=True,
    ids=["ENOSPC", "EFBIG"],
)


def produce_until_refused(wire: Wire, topic: str) -> list[bytes]:
    """Send batches until one is refused. Return the acknowledged values."""
    sent: list[bytes] = []
    while True:
        value = b"%d-" % len(sent) + VALUE
        response = produce(wire, topic, build_batch(records(1, value)))
        if response.error_code != ErrorCode.NONE:
            assert response.error_code == STORAGE_ERROR, ErrorCode(response.error_code)
            return sent
        assert response.base_offset == len(sent)
        sent.append(value)
        assert len(sent) < 1000


@BOTH
def test_d1_d7_a_full_disk_refuses_batches_and_keeps_all_acknowledged_ones(
    broker: Oncelog, disk: Disk
) -> None:
    """D1: readers continue, the log ends with a complete batch, and there is one log event. Once
    the disk has space again, producers continue. They do so after a crash as well."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        disk.fill()
        sent = produce_until_refused(wire, "t")
        assert values(wire, "t") == sent
        for _ in range(5):
            assert produce(wire, "t", build_batch(records(1, VALUE))).error_code == STORAGE_ERROR
        disk.free()
        sent.append(b"more")
        assert produce(wire, "t", build_batch(records(1, b"more"))).error_code == ErrorCode.NONE
        assert values(wire, "t") == sent
    logged = [event for event in events(broker) if event["event"] == "disk refused"]
    assert [(event["partition"], event["level"]) for event in logged] == [("t-0", "error")]
    assert logged[0]["file"] == f"t-0/{0:020}.log"
    broker.kill()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == sent
        assert produce(wire, "t", build_batch(records())).base_offset == len(sent)


def end(wire: Wire, producer: Identity, *, commit: bool) -> tuple[ErrorCode, Identity]:
    """Send one EndTxn and do not retry."""
    request = EndTxnRequest(
        transactional_id=producer.transactional_id or "",
        producer_id=producer.producer_id,
        producer_epoch=producer.producer_epoch,
        committed=commit,
    )
    response = wire.call(request, 5)
    code = ErrorCode(response.error_code)
    if code is not ErrorCode.NONE:
        return code, producer
    return code, Identity(response.producer_id, response.producer_epoch, producer.transactional_id)


def fill_transaction_log(broker: Oncelog, wire: Wire, disk: Disk) -> None:
    """Fill the disk, then the transaction log, until the log refuses even the record of a short id.
    No other file grows meanwhile."""
    disk.fill()
    refused = init_producer_id(wire, "f")
    for _ in range(5_000):
        if refused.error_code != ErrorCode.NONE:
            break
        refused = init_producer_id(wire, "f")
    assert refused.error_code in TRY_AGAIN, ErrorCode(refused.error_code)
    assert refusals(broker)


def refusals(broker: Oncelog) -> list[str]:
    """Return the files that could not grow. Each of them has at most one log event a minute."""
    return [event["file"] for event in events(broker) if event["event"] == "disk refused"]


@BOTH
@pytest.mark.parametrize("commit", [True, False], ids=["commit", "abort"])
@pytest.mark.parametrize("through", ["no crash", "kill"])
def test_d2_an_end_txn_refused_by_a_full_disk_is_decided_once_later(
    broker: Oncelog, disk: Disk, through: str, commit: bool
) -> None:
    """Only the transaction log has no space for a record. The client gets a retriable error. The
    partitions have space, but get no marker. Once the disk has space again, the transaction is
    decided once."""
    name = "an id that is longer than the other one"
    places = [0, 1]
    with Wire(broker.address) as wire:
        create(wire, "t", partitions=len(places))
        assert new_identity(wire, "f").producer_id >= 0
        producer = new_identity(wire, name)
        for place in places:
            sent = produce(
                wire, "t", batch(producer, 0, value=b"once"), producer=producer, partition=place
            )
            assert sent.error_code == ErrorCode.NONE
        fill_transaction_log(broker, wire, disk)
        for _ in range(3):
            code, _ = end(wire, producer, commit=commit)
            assert code in NOT_DECIDED, code
        assert set(refusals(broker)) == {f"__transaction_state-0/{0:020}.log"}
        assert [end_offset(wire, "t", place) for place in places] == [1, 1]
        assert [last_stable_offset(wire, "t", place) for place in places] == [0, 0]
    if through == "kill":
        broker.kill()
    disk.free()
    if through == "kill":
        broker.start()
    with Wire(broker.address) as wire:
        assert [end_offset(wire, "t", place) for place in places] == [1, 1]
        for _ in range(3):  # a retry does not decide the transaction again
            assert end_transaction(wire, producer, commit=commit).error_code == ErrorCode.NONE
        wait_until(
            lambda: [last_stable_offset(wire, "t", place) for place in places] == [2, 2],
            "the transaction is over",
        )
        assert [end_offset(wire, "t", place) for place in places] == [2, 2]
        for place in places:
            assert values(wire, "t", partition=place) == ([b"once"] if commit else [])


@BOTH
@pytest.mark.parametrize("through", ["no crash", "kill"])
def test_decided_transactions_are_completed_although_any_write_may_fail(
    broker: Oncelog, disk: Disk, through: str
) -> None:
    """A decided transaction gets all its markers once the disk has space, and aborted records are
    never visible."""
    committed: list[bytes] = []
    with Wire(broker.address) as wire:
        create(wire, "t", partitions=2)
        producer = new_identity(wire, "t")
        number, code, commit = 0, ErrorCode.NONE, True
        sent: list[bytes] = []
        disk.fill()
        while code is ErrorCode.NONE:
            commit, sent = number % 2 == 0, []
            for partition in (0, 1):
                value = b"%d" % number * (200 if number < 100 else 4000)
                data = batch(producer, 0, 1, value)
                response = produce(wire, "t", data, producer=producer, partition=partition)
                if response.error_code == ErrorCode.NONE:
                    sent.append(value)
            code, producer = end(wire, producer, commit=commit)
            committed += sent if commit and code is ErrorCode.NONE else []
            number += 1
            if number > 200:  # these transactions write to none of the full files
                break
        assert code in TRY_AGAIN | {ErrorCode.NONE}, code
        assert not set(values(wire, "t")) - set(committed) - set(sent)
    if through == "kill":
        broker.kill()
    disk.free()
    if through == "kill":
        broker.start()
    with Wire(broker.address) as wire:
        if code is not ErrorCode.NONE:
            wait_until(
                lambda: end(wire, producer, commit=commit)[0] not in TRY_AGAIN,
                "a final response to EndTxn",
            )
            committed += sent if commit else []
        wait_until(
            lambda: all(
                last_stable_offset(wire, "t", at) == end_offset(wire, "t", at) for at in (0, 1)
            ),
            "all transactions are over",
        )
        found = values(wire, "t") + values(wire, "t", partition=1)
        assert sorted(found) == sorted(committed)


def test_oncelog_produce_names_the_full_disk_and_retries(broker: Oncelog, disk: Disk) -> None:
    """While the command retries, standard error names the cause. Once the disk has space, the
    command succeeds."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        wait_until(lambda: metadata_is_written(broker), "the metadata is in its file")
        disk.fill()
    command = [sys.executable, "-m", "oncelog_client.cli", "produce", "--topic"]
    address = ["--bootstrap-server", broker.address]
    new = subprocess.run(
        [*command, "new", *address, "--give-up-after", "1"],
        input=b"a\n",
        capture_output=True,
        check=False,
        timeout=30,
    )
    assert new.returncode == 1
    assert b"KAFKA_STORAGE_ERROR" in new.stderr
    assert b"disk" in new.stderr
    with subprocess.Popen(
        [*command, "t", *address], stdin=subprocess.PIPE, stderr=subprocess.PIPE
    ) as running:
        assert running.stdin is not None
        assert running.stderr is not None
        running.stdin.write(VALUE + b"\n")
        running.stdin.close()
        said = running.stderr.readline()
        assert b"KAFKA_STORAGE_ERROR" in said
        assert b"t-0" in said
        assert b"trying again" in said
        disk.free()
        rest = running.stderr.read()
        assert running.wait() == 0, rest


def test_health_reports_a_full_disk(broker: Oncelog, disk: Disk) -> None:
    """`oncelog cluster health` has exit code 1, for scripts, and its row of full disks names the
    directory."""
    command_line = CommandLine(broker.address)

    def row() -> tuple[int, str, list[str]]:
        result = command_line.call("cluster", "health", "--json")
        rows = {load["check"]: load for load in json.loads(result.stdout)}
        found = rows["full disks"]
        return result.exit_code, found["state"], found["what"]

    assert row() == (0, "ok", [])
    disk.fill()
    code, state, what = row()
    assert (code, state) == (1, "problem")
    assert str(broker.data) in what[0]
    disk.free()
    assert row() == (0, "ok", [])


@BOTH
def test_admin_requests_are_refused_and_work_again_later(broker: Oncelog, disk: Disk) -> None:
    """The metadata store is full. The request gets a response, the metadata image is unchanged, and
    the broker continues."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        disk.fill()
        produce_until_refused(wire, "t")
        codes = [_create(wire, f"n{number}") for number in range(60)]
        assert set(codes) <= {ErrorCode.NONE, STORAGE_ERROR}
        assert STORAGE_ERROR in codes
        assert fetch(wire, "t").error_code == ErrorCode.NONE
        disk.free()
        wait_until(lambda: _create(wire, "later") is not STORAGE_ERROR, "a topic can be created")
        assert produce(wire, "later", build_batch(records())).error_code == ErrorCode.NONE
        answered = {f"n{number}": code for number, code in enumerate(codes)}
    broker.stop()
    broker.start()
    with Wire(broker.address) as wire:
        for topic, code in answered.items():
            if code is ErrorCode.NONE:
                sent = produce(wire, topic, build_batch(records()))
                assert sent.error_code == ErrorCode.NONE, topic


def free_bytes(broker: Oncelog) -> int:
    return shutil.disk_usage(broker.data).free


def metadata_is_written(broker: Oncelog) -> bool:
    """Return True if the store has its reserve and its write-ahead log is empty."""
    reserve, rest = broker.data / METADATA_RESERVE, broker.data / f"{METADATA_FILE}-wal"
    whole = reserve.exists() and reserve.stat().st_size == RESERVE_BYTES
    return whole and not rest.stat().st_size


def fill_with(broker: Oncelog, wire: Wire, disk: Disk, *topics: str) -> None:
    """Fill the disk to the last byte with records of these topics."""
    for topic in topics:
        create(wire, topic, file_delete_delay_ms=0, segment_bytes=1 << 20)
    wait_until(lambda: metadata_is_written(broker), "the metadata is in its file")
    for topic in topics[1:]:
        for _ in range(20):  # more than one segment
            assert produce(wire, topic, build_batch(records(1, VALUE))).error_code == 0
    produce_until_refused(wire, topics[0])
    disk.fill()
    assert not free_bytes(broker)


def delete_records(wire: Wire, topic: str) -> ErrorCode:
    partition = DeleteRecordsPartition(0, -1)
    request = DeleteRecordsRequest([DeleteRecordsTopic(topic, [partition])], timeout_ms=30_000)
    return ErrorCode(wire.call(request).topics[0].partitions[0].error_code)


def shorten_retention(wire: Wire, topic: str) -> ErrorCode:
    config = AlterableConfig(name="retention.ms", config_operation=0, value="1")
    resource = AlterConfigsResource(resource_type=2, resource_name=topic, configs=[config])
    response = wire.call(IncrementalAlterConfigsRequest([resource]))
    return ErrorCode(response.responses[0].error_code)


def delete_topic(wire: Wire, topic: str) -> ErrorCode:
    request = DeleteTopicsRequest(topics=[DeleteTopicState(name=topic)], timeout_ms=30_000)
    return ErrorCode(wire.call(request).responses[0].error_code)


FREEING = {
    "topic delete": delete_topic,
    "retention": shorten_retention,
    "DeleteRecords": delete_records,
}


@pytest.mark.parametrize(
    ("how", "through"), [*((how, "no crash") for how in FREEING), ("topic delete", "kill")]
)
def test_what_frees_space_works_on_a_full_disk(
    broker: Oncelog, disk: Disk, how: str, through: str
) -> None:
    """The broker itself can free a full disk, even after a kill and a restart. The first
    DeleteRecords may be refused, because the checkpoint has no space for the new log start. The
    refused request deletes the segments nevertheless, so a retry finds space."""
    with Wire(broker.address) as wire:
        fill_with(broker, wire, disk, "t", "u")
    if through == "kill":
        broker.kill()
        disk.fill()
        broker.start()
    with Wire(broker.address) as wire:
        disk.fill()
        assert not free_bytes(broker)
        code = FREEING[how](wire, "u")
        if how == "DeleteRecords":
            assert code in (STORAGE_ERROR, ErrorCode.NONE)
            wait_until(lambda: delete_records(wire, "u") is ErrorCode.NONE, "records are deleted")
        else:
            assert code is ErrorCode.NONE
        wait_until(lambda: free_bytes(broker) > 400_000, "free space on the disk")
        wait_until(
            lambda: produce(wire, "t", build_batch(records())).error_code == 0,
            "a producer can write",
        )
        disk.free()
        wait_until(lambda: metadata_is_written(broker), "the metadata store has its reserve again")
        create(wire, "new")


def _create(wire: Wire, topic: str) -> ErrorCode:
    return created(wire, topic)[0]


def test_a_stop_on_a_full_disk_loses_nothing(broker: Oncelog, disk: Disk) -> None:
    """D4: the next start computes the state that the stop could not write."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        disk.fill()
        sent = produce_until_refused(wire, "t")
    assert broker.stop() == 0
    assert events(broker)
    disk.free()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == sent


def test_a_start_on_a_full_disk_serves_or_says_why_not(broker: Oncelog, disk: Disk) -> None:
    with Wire(broker.address) as wire:
        create(wire, "t")
        disk.fill()
        sent = produce_until_refused(wire, "t")
    broker.kill()
    disk.fill()
    process = broker.spawn()
    wait_until(
        lambda: process.poll() is not None or "listening" in broker.output.read_text(),
        "the broker listens or ends",
    )
    assert "Traceback" not in broker.said()
    if process.poll() is not None:
        assert str(broker.data) in broker.log.read_text().splitlines()[-1]
    broker.kill()
    disk.free()
    broker.start()
    with Wire(broker.address) as wire:
        assert values(wire, "t") == sent
