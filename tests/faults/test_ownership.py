"""A broker starts on its own data or on an empty directory. It does not touch the files of another
program. It refuses its own data if the metadata is missing, damaged or older than the logs, and
says what to do."""

from __future__ import annotations

import asyncio
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_server.broker import Broker
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.topic_deletion import delete_topics
from oncelog_server.data_directory.ownership import NeedsRecovery
from oncelog_server.environment import OsEnvironment
from oncelog_server.log.checkpoints import encode_partition_metadata
from oncelog_server.metadata.sqlite_store import SqliteStore
from oncelog_server.metadata.text_copy import decode_copy
from oncelog_server.settings.model import Settings
from tests.faults.folders import (
    COPY,
    STORE,
    Print,
    fingerprint,
    lose_store,
    restore_metadata,
    save_metadata,
    strays,
)
from tests.faults.logs import write
from tests.faults.losses import DAMAGES, LOSSES, empty_store
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, events, refusal, values
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, end_transaction, init_producer_id, new_identity, produce

KAFKA_PROPERTIES = (
    "#\n#Sun Nov 22 10:00:00 UTC 2026\ncluster.id=b25jZWxvZy1jb250cm9sLQ\n"
    "directory.id=c4xAUsuXAq-D4JiTn4OkSg\nnode.id=1\nversion=1\n"
)


def _partition(folder: Path, name: str) -> None:
    (folder / name).mkdir(parents=True)
    (folder / name / f"{0:020}.log").write_bytes(b"records")
    (folder / name / "partition.metadata").write_bytes(encode_partition_metadata(b"t" * 16))


def _of_kafka(folder: Path) -> None:
    for name in ("__cluster_metadata-0", "orders-0", "orders-1", "__consumer_offsets-0"):
        _partition(folder, name)
    (folder / "meta.properties").write_text(KAFKA_PROPERTIES)
    (folder / "bootstrap.checkpoint").write_bytes(b"bootstrap")
    (folder / ".lock").touch()


def _of_a_kafka_broker_without_a_controller(folder: Path) -> None:
    _partition(folder, "orders-0")
    (folder / "meta.properties").write_text(KAFKA_PROPERTIES)


def _of_a_person(folder: Path) -> None:
    folder.mkdir()
    for number in range(9):
        (folder / f"letter {number}.txt").write_text("dear")


FOREIGN: dict[str, tuple[Callable[[Path], None], list[str]]] = {
    "Apache Kafka": (
        _of_kafka,
        ["meta.properties (cluster.id=b25j", "version=1", "__cluster_metadata-0", "orders-0"],
    ),
    "a Kafka broker without a controller": (
        _of_a_kafka_broker_without_a_controller,
        ["meta.properties", "orders-0"],
    ),
    "a partition": (lambda folder: _partition(folder, "x-0"), ["holds x-0", "storage import"]),
    "a person": (_of_a_person, ["letter 0.txt", "and 4 more"]),
}


@pytest.fixture
def new(tmp_path: Path) -> Oncelog:
    """A broker that was never started."""
    return Oncelog(tmp_path, QUICK)


@pytest.mark.parametrize("kind", FOREIGN)
def test_a_directory_of_another_program_is_refused_and_not_touched(new: Oncelog, kind: str) -> None:
    make, expected = FOREIGN[kind]
    make(new.data)
    before = fingerprint(new.data)
    said = refusal(new)
    assert fingerprint(new.data) == before
    assert "is not a data directory of oncelog" in said
    assert "--data" in said
    for words in expected:
        assert words in said, said


def is_owned(broker: Oncelog) -> bool:
    """Write a record to a new topic. Return True if the broker's directory has meta.properties and
    the topic."""
    with Wire(broker.address) as wire:
        create(wire, "orders")
        write(wire, "orders", 1)
    return (broker.data / "meta.properties").exists() and (broker.data / "orders-0").is_dir()


def test_a_new_volume_counts_as_an_empty_directory(new: Oncelog) -> None:
    """A new volume may be the root of a file system. A start that ended early may have left an
    empty directory."""
    new.data.mkdir()
    (new.data / "lost+found").mkdir()
    (new.data / ".lock").touch()
    with new:
        assert is_owned(new)
    assert (new.data / "lost+found").is_dir()


@pytest.mark.parametrize(
    "left", ["a store of 0 bytes", "a store with only the cluster and its features"]
)
def test_a_first_start_that_was_cut_short_is_begun_anew(new: Oncelog, left: str) -> None:
    new.data.mkdir()
    (new.data / ".lock").touch()
    (new.data / STORE).touch()
    if left == "a store with only the cluster and its features":
        with Oncelog(new.directory / "other", QUICK) as other:
            pass
        shutil.copy2(other.data / STORE, new.data)
        empty_store(new.data / STORE, keep=("cluster", "features"))
    with new:
        assert is_owned(new)


def _filled(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, "orders", "payments")
        for topic in ("orders", "payments"):
            write(wire, topic, 3)


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Data directories of one broker. The key says how the broker ended."""
    found = {}
    directory = tmp_path_factory.mktemp("filled")
    with Oncelog(directory, QUICK) as broker:
        _filled(broker)
        for how in ("kill", "clean stop"):
            broker.stop() if how == "clean stop" else broker.kill()
            found[how] = directory / how
            shutil.copytree(broker.data, found[how])
            if how == "kill":
                broker.start()
    return found


@pytest.fixture
def filled(filled_once: dict[str, Path], tmp_path: Path) -> Callable[[str], Oncelog]:
    """A function that copies a directory of `filled_once` and returns a broker for the copy. The
    broker is not started."""

    def make(how: str) -> Oncelog:
        broker = Oncelog(tmp_path, QUICK)
        shutil.copytree(filled_once[how], broker.data)
        return broker

    return make


def refused_start(broker: Oncelog) -> str:
    """Start a broker in this process, and return the error that refuses the start. The error
    must come before the broker listens. `refusal` starts a broker process instead."""
    settings = Settings(log_dirs=(str(broker.data),), listeners=("PLAINTEXT://127.0.0.1:0",))

    async def start() -> None:
        environment = OsEnvironment(settings.data_directory)
        try:
            await Broker(settings, environment).start()
        finally:
            environment.close()

    with pytest.raises(NeedsRecovery) as refused:
        asyncio.run(start())
    return str(refused.value)


@pytest.mark.parametrize("damage_of", DAMAGES)
def test_a_damaged_store_is_refused_and_the_error_names_the_recovery(
    filled: Callable[[str], Oncelog], damage_of: str
) -> None:
    broker = filled("clean stop")
    DAMAGES[damage_of](broker)
    for _ in range(2):
        assert f"oncelog storage recover --data {broker.data}" in refused_start(broker)
    assert strays(broker) == []


def test_a_broker_process_that_needs_a_recovery_ends_and_names_it(
    filled: Callable[[str], Oncelog],
) -> None:
    """The broker's process prints one line and ends with exit code 1. Other tests check the same
    message without a broker process."""
    broker = filled("clean stop")
    lose_store(broker)
    for _ in range(2):
        assert f"oncelog storage recover --data {broker.data}" in refusal(broker)


def partition_prints(broker: Oncelog) -> dict[str, dict[str, Print]]:
    """Return the fingerprints of the directories of all partitions with number 0. The metadata
    store is left out, because a refused start may change it."""
    return {folder.name: fingerprint(folder) for folder in broker.data.glob("*-0")}


@pytest.mark.parametrize(
    ("loss", "how"),
    [*((loss, "clean stop") for loss in LOSSES), ("the store is gone", "kill")],
)
def test_lost_metadata_is_refused_and_the_error_names_the_recovery(
    filled: Callable[[str], Oncelog], loss: str, how: str
) -> None:
    broker = filled(how)
    LOSSES[loss](broker)
    partitions = partition_prints(broker)
    assert partitions
    for _ in range(2):
        said = refused_start(broker)
        assert f"oncelog storage recover --data {broker.data}" in said, said
    assert partition_prints(broker) == partitions
    assert strays(broker) == []
    if "meta.properties is empty" in loss:
        assert "meta.properties is empty" in said


def test_a_store_whose_bytes_changed_is_refused(broker: Oncelog) -> None:
    """The checksum finds a changed value that is still a valid record."""
    with Wire(broker.address) as wire:
        create(wire, "precious", retention_ms=123_456_789)
    broker.stop()
    path = broker.data / STORE
    data = path.read_bytes()
    assert b"123456789" in data
    path.write_bytes(data.replace(b"123456789", b"123456788"))
    assert "do not match their checksum" in refused_start(broker)


def test_older_metadata_is_refused_before_an_id_is_given_twice(
    broker: Oncelog, tmp_path: Path
) -> None:
    """If the broker started, two producers would get the same id. The first batch of the second
    producer would count as a retry, and the broker would acknowledge it without writing it."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        new_identity(wire)
    broker.stop()
    save_metadata(broker, tmp_path / "saved")
    broker.start()
    with Wire(broker.address) as wire:
        identity = new_identity(wire)
        assert produce(wire, "t", batch(identity, 0)).error_code == ErrorCode.NONE
    broker.stop()
    restore_metadata(broker, tmp_path / "saved")
    for _ in range(2):
        said = refusal(broker)
        assert "older than the logs" in said
        assert f"producer id {identity.producer_id}" in said
        assert "leader epoch" in said
    broker.data.joinpath(COPY).unlink()
    assert "older than the logs" in refusal(broker)


def test_an_older_store_beside_its_newer_copy_is_refused(broker: Oncelog, tmp_path: Path) -> None:
    """An operator restores the store's file, but not its copy. The logs do not show this."""
    broker.stop()
    shutil.copy2(broker.data / STORE, tmp_path / STORE)
    broker.start()
    with Wire(broker.address) as wire:
        new_identity(wire)
    broker.kill()
    lose_store(broker)
    shutil.copy2(tmp_path / STORE, broker.data)
    said = refusal(broker)
    assert "is out of date" in said
    assert "oncelog storage recover" in said


def test_a_partition_that_older_metadata_does_not_know(broker: Oncelog, tmp_path: Path) -> None:
    broker.stop()
    save_metadata(broker, tmp_path / "saved")
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "later", partitions=3)
    broker.stop()
    restore_metadata(broker, tmp_path / "saved")
    said = refusal(broker)
    assert "it does not contain later-0; it does not contain later-1" in said
    assert strays(broker) == []
    assert (broker.data / "later-0").is_dir()


def test_a_producer_id_that_was_never_assigned_is_refused(broker: Oncelog) -> None:
    """If the broker wrote a batch with this id, it would later assign the id to another producer.
    Its next start would be refused, because the metadata would seem older than the logs."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        producer = new_identity(wire)
        for forged in (producer.producer_id + 1, producer.producer_id + 5_000, 2**62):
            data = batch(replace(producer, producer_id=forged), 0)
            assert produce(wire, "t", data).error_code == ErrorCode.UNKNOWN_PRODUCER_ID
        assert values(wire, "t") == []
        assert produce(wire, "t", batch(producer, 0)).error_code == ErrorCode.NONE
    broker.kill()
    broker.start()


def test_a_transactional_id_of_newer_metadata_is_not_served(
    broker: Oncelog, tmp_path: Path
) -> None:
    """The restored metadata is older than the producer id of `y`. Only the coordinator's log has
    this id, so only the coordinator's partition is refused, and not the start."""
    with Wire(broker.address) as wire:
        create(wire, "t")
        first = new_identity(wire, "x")
        assert produce(wire, "t", batch(first, 0), producer=first).error_code == ErrorCode.NONE
        end_transaction(wire, first, commit=True)
        save_metadata(broker, tmp_path / "saved")
        while init_producer_id(wire, None).producer_id < 1_000:  # until the next block of ids
            pass
        new_identity(wire, "y")
    broker.kill()
    restore_metadata(broker, tmp_path / "saved")
    broker.start()
    wait_until(lambda: _reasons(broker, "cannot lead partition"), "a shard that is refused")
    assert "oncelog storage recover" in _reasons(broker, "cannot lead partition")[0]


def _reasons(broker: Oncelog, event: str) -> list[str]:
    return [str(row["reason"]) for row in events(broker) if row["event"] == event]


def test_what_a_crash_leaves_of_a_deleted_topic_is_put_aside(broker: Oncelog) -> None:
    """The store keeps the record of a topic's deletion as long as the topic's directories exist."""
    with Wire(broker.address) as wire:
        create(wire, "gone")
        write(wire, "gone", 1)
    broker.stop()
    shutil.copytree(broker.data / "gone-0", broker.directory / "gone-0")
    _delete_in_store(broker.data / STORE, "gone")
    broker.start()
    assert [name[:7] for name in strays(broker)] == ["gone-0."]
    broker.stop()
    assert "deletions/" in (broker.data / COPY).read_text()
    shutil.rmtree(broker.data / strays(broker)[0])
    broker.start()
    broker.stop()
    assert "deletions/" not in _last_snapshot(broker.data / COPY)


def _delete_in_store(store: Path, topic: str) -> None:

    async def delete() -> None:
        opened = await SqliteStore.open(store)
        image = ClusterImage.of(await opened.range(""))
        for delete_topic in delete_topics(image, Settings(), [topic])[0]:
            await opened.txn(delete_topic.compare, delete_topic.operations)
        await opened.close()

    asyncio.run(delete())


def _last_snapshot(copy: Path) -> str:
    return " ".join(entry.key for entry in decode_copy(copy.read_bytes()).entries)


def test_a_deleted_topic_is_forgotten_with_its_folders(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, "a", "b")
        names = [DeleteTopicState(name=name) for name in ("a", "b")]
        answer = wire.call(DeleteTopicsRequest(topics=names, timeout_ms=10_000), 6)
        assert [response.error_code for response in answer.responses] == [0, 0]
    broker.stop()
    assert "deletions/" not in _last_snapshot(broker.data / COPY)


@pytest.mark.parametrize("kind", ["a loop", "a broken link", "a file"])
def test_a_path_that_cannot_be_a_data_directory_is_refused(new: Oncelog, kind: str) -> None:
    said = {
        "a loop": "a loop of symbolic links",
        "a broken link": "its target does not exist",
        "a file": "is a file",
    }[kind]
    if kind == "a file":
        new.data.write_text("text")
        command = [*new.command()[:3], "serve", "--port", "0", "--set", f"log.dirs={new.data}"]
    else:
        new.data.symlink_to(new.data if kind == "a loop" else new.data.with_name("nothing"))
        command = new.command()
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 1
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_serve_in_a_deleted_directory_ends_with_exit_code_1(tmp_path: Path) -> None:
    place = tmp_path / "gone"
    place.mkdir()
    script = (
        "import os, sys; os.rmdir(os.getcwd());"
        "from oncelog_server.__main__ import main; main(['serve', '--port', '0'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], cwd=place, capture_output=True, text=True, timeout=30
    )
    assert done.returncode == 1
    assert "has been deleted" in done.stderr
    assert "Traceback" not in done.stderr
