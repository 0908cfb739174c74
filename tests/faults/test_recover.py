"""`oncelog storage recover` restores lost, damaged or old metadata from the partitions'
directories, and loses no data. `oncelog storage backup` copies the metadata."""

from __future__ import annotations

import copy
import os
import shutil
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.metadata.database import Database
from oncelog_server.salvage import commands
from oncelog_server.salvage.changes import PlannedChanges
from oncelog_server.storage.layout import stray_directory
from tests.faults.folders import (
    COPY,
    STORE,
    fingerprint,
    lose_store,
    restore_metadata,
    save_metadata,
    strays,
)
from tests.faults.logs import write
from tests.faults.losses import LOSSES
from tests.faults.recoveries import (
    LONG_MS,
    State,
    random_folder,
    recorded,
    recover,
    run,
    state_of,
)
from tests.faults.test_ownership import FOREIGN
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create, damage, refusal, values
from tests.harness.waiting import wait_until
from tests.harness.writing import batch, new_identity, produce

LONG = "long-" * 49


@pytest.mark.parametrize("seed", range(2))
def test_a_random_directory_is_recovered(tmp_path: Path, seed: int) -> None:
    """`python -m tests.faults.recoveries` tries more random directories, and `tests/torture` tries
    directories that kills left behind."""
    random_folder(tmp_path, seed)


def _fill(broker: Oncelog) -> None:
    with Wire(broker.address) as wire:
        create(wire, "orders", partitions=3, retention_ms=123_456_789)
        create(wire, "payments", LONG)
        for topic in ("orders", "payments", LONG):
            write(wire, topic, 3)
        for name in ("a", "b"):
            producer = new_identity(wire, name, timeout_ms=LONG_MS)
            assert (
                produce(wire, "orders", batch(producer, 0), producer=producer).error_code
                == ErrorCode.NONE
            )


@pytest.fixture(scope="module")
def filled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, State]:
    """A data directory after a clean stop, and the state of its broker before the stop."""
    with Oncelog(tmp_path_factory.mktemp("filled"), QUICK) as broker:
        _fill(broker)
        state = state_of(broker)
        broker.stop()
        return broker.data, state


@pytest.fixture
def filled(filled_once: tuple[Path, State], tmp_path: Path) -> Iterator[tuple[Oncelog, State]]:
    """A broker for a copy of the directory of `filled_once`, and the state. The broker is not
    started."""
    data, state = filled_once
    broker = Oncelog(tmp_path, QUICK)
    shutil.copytree(data, broker.data)
    yield broker, copy.deepcopy(state)
    broker.kill()


@pytest.mark.parametrize("loss", LOSSES)
def test_lost_metadata_comes_back(filled: tuple[Oncelog, State], loss: str) -> None:
    broker, before = filled
    was = recorded(broker)
    LOSSES[loss](broker)
    recover(broker)
    if (broker.data / COPY).exists() and "copy" not in loss and "all" not in loss:
        assert recorded(broker) == was
    broker.start()
    after = state_of(broker)
    if loss in ("the store and its copy are gone", "all metadata is gone"):
        after.settings["orders"] = before.settings["orders"]
        for name in ("payments", LONG):
            assert after.settings.pop(name)["retention.ms"] == "-1"
            before.settings.pop(name)
    assert after == before


def test_a_recovery_of_intact_metadata_changes_nothing(filled: tuple[Oncelog, State]) -> None:
    broker, _ = filled
    before = fingerprint(broker.data)
    for arguments in ([], ["--yes"]):
        result = run("recover", "--data", str(broker.data), *arguments)
        assert result.exit_code == 0
        assert "Nothing to do" in result.output
    assert fingerprint(broker.data) == before


def test_a_recovery_restores_stray_directories(filled: tuple[Oncelog, State]) -> None:
    """An earlier version of oncelog began a new cluster if the metadata was missing, and renamed
    the directories of all partitions to strays. A client then created one of the topics again and
    wrote nothing."""
    broker, before = filled
    aside = broker.directory / "aside"
    aside.mkdir()
    for path in broker.data.glob("*-[0-9]"):
        topic, _, partition = path.name.rpartition("-")
        path.rename(aside / stray_directory(topic, int(partition), os.urandom(16)))
    shutil.copy2(broker.data / "meta.properties", aside)
    shutil.rmtree(broker.data)
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "payments")
    broker.stop()
    for path in aside.iterdir():
        shutil.move(path, broker.data / path.name)
    said = recover(broker)
    assert "becomes orders-0 again" in said
    broker.start()
    after = state_of(broker)
    cut = {name for name in after.topics if name.startswith("long-")}
    assert len(cut) == 1
    assert len(cut.pop()) < len(LONG)  # the name of a stray is cut
    for state in (before, after):
        state.settings.clear()
        for name in [*state.topics]:
            if name.startswith("long-"):
                del state.topics[name]
        for place in [*state.records]:
            if place[0].startswith("long-"):
                del state.records[place]
    assert after == before


def test_strays_of_deleted_topics_stay_strays(broker: Oncelog) -> None:
    _fill(broker)
    broker.stop()
    id_text = next(
        records.decode(records.TopicRecord, entry.value).id
        for entry in recorded(broker).entries
        if entry.key == "topics/payments"
    )
    aside = stray_directory("payments", 0, os.urandom(16))
    (broker.data / "payments-0").rename(broker.data / aside)
    _record_deletion(broker.data / STORE, "payments", id_text)
    lose_store(broker)
    said = recover(broker)
    assert f"{aside}: topic payments was deleted" in said
    assert strays(broker) == [aside]
    broker.start()
    with Wire(broker.address) as wire:
        assert len(values(wire, "orders")) == 3


def _record_deletion(store: Path, name: str, id_text: str) -> None:
    from oncelog_server.cluster.store import Delete, Put

    database = Database(store, copy=store.with_name(COPY))
    deletion = records.encode(records.DeletionRecord(name, 1))
    database.txn(
        (), [Delete(records.topic_key(name)), Put(records.deletion_key(id_text), deletion)]
    )
    database.txn((), [Delete(records.partition_key(id_text, 0))])
    database.close()


def test_older_metadata_is_brought_up_to_the_folders(broker: Oncelog, tmp_path: Path) -> None:
    """Topics that were created after the backup are restored, and no id is assigned twice."""
    with Wire(broker.address) as wire:
        create(wire, "orders", retention_ms=123_456_789)
    broker.stop()
    save_metadata(broker, tmp_path / "saved")
    broker.start()
    with Wire(broker.address) as wire:
        create(wire, "later", partitions=3)
        write(wire, "later", 2)
        given = [new_identity(wire) for _ in range(5)]
        for producer in given:
            assert produce(wire, "orders", batch(producer, 0)).error_code == ErrorCode.NONE
    before = state_of(broker)
    broker.stop()
    restore_metadata(broker, tmp_path / "saved")
    assert "older than the logs" in refusal(broker)
    said = recover(broker)
    assert "the records are older than the folders" in said
    broker.start()
    after = state_of(broker)
    assert after.settings["orders"] == {"retention.ms": "123456789"}
    assert after.settings.pop("later")["retention.ms"] == "-1"
    before.settings.pop("later")
    assert after == before
    with Wire(broker.address) as wire:
        fresh = new_identity(wire)
        assert fresh.producer_id > max(producer.producer_id for producer in given)
        assert produce(wire, "orders", batch(fresh, 0)).error_code == ErrorCode.NONE
        assert len(values(wire, "orders")) == len(given) + 1


def test_a_topic_id_that_was_damaged_is_set_right(broker: Oncelog) -> None:
    _fill(broker)
    before = state_of(broker)
    broker.stop()
    path = broker.data / "orders-1" / "partition.metadata"
    text = path.read_text()
    at = text.index("topic_id: ") + 12
    path.write_text(text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :])
    recover(broker)
    broker.start()
    assert state_of(broker) == before


def test_recovery_is_refused_while_a_broker_runs(broker: Oncelog) -> None:
    for arguments in ([], ["--yes"]):
        result = run("recover", "--data", str(broker.data), *arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert f"(pid {broker.pid}) uses {broker.data}" in result.output


@pytest.mark.parametrize(
    "kind", ["Apache Kafka", "a Kafka broker without a controller", "a person"]
)
def test_a_recovery_changes_no_directory_that_oncelog_has_not_written(
    tmp_path: Path, kind: str
) -> None:
    folder = tmp_path / "folder"
    FOREIGN[kind][0](folder)
    before = fingerprint(folder)
    result = run("recover", "--data", str(folder), "--yes")
    assert result.exit_code == 1
    assert "is not a data directory of oncelog" in result.output
    assert fingerprint(folder) == before


def test_there_must_be_something_to_recover(tmp_path: Path) -> None:
    for place in (tmp_path / "nothing", tmp_path):
        assert run("recover", "--data", str(place), "--yes").exit_code == 1
    assert [*tmp_path.iterdir()] == []


class _Died(BaseException):
    """Raised instead of a change of the disk, as if the process had died before the change."""


def test_a_folder_of_another_program_is_refused(tmp_path: Path) -> None:
    """A subdirectory with the name of a partition does not make the directory a data directory."""
    (tmp_path / "polkit-1").mkdir()
    (tmp_path / "hosts").write_text("127.0.0.1 localhost")
    before = sorted(tmp_path.rglob("*"))
    for arguments in ([], ["--yes"]):
        result = run("recover", "--data", str(tmp_path), *arguments)
        assert result.exit_code == 1
        assert result.output.startswith("Error: ")
        assert "is not a data directory of oncelog" in result.output
        assert sorted(tmp_path.rglob("*")) == before


def test_a_recovery_reports_partitions_without_a_folder(broker: Oncelog, tmp_path: Path) -> None:
    with Wire(broker.address) as wire:
        create(wire, "orders", partitions=50)
    target = tmp_path / "copy"
    assert run("backup", str(target), "--data", str(broker.data)).exit_code == 0
    output = run("recover", "--data", str(target)).output
    assert "no folder for partitions 0-49 of orders: will be empty" in output
    assert "agrees with the folders" not in output
    assert "50 partitions without a folder" in output


def _dying(last: int) -> Callable[[str], None]:
    left = [last]

    def about_to(what: str) -> None:
        if not left[0]:
            raise _Died(what)
        left[0] -= 1

    return about_to


def test_a_recovery_that_is_cut_short_anywhere_can_be_run_again(
    broker: Oncelog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test interrupts a recovery before each change of the disk. A second run restores
    everything."""
    _fill(broker)
    before = state_of(broker)
    broker.stop()
    place = broker.data / "payments-0"
    place.rename(broker.data / stray_directory("payments", 0, os.urandom(16)))
    (broker.data / "meta.properties").unlink()
    damage(broker.data / STORE, 3)
    saved = tmp_path / "saved"
    shutil.copytree(broker.data, saved)
    changes = 0
    while True:
        shutil.rmtree(broker.data)
        shutil.copytree(saved, broker.data)
        dying = _dying(changes)
        with monkeypatch.context() as patch:
            patch.setattr(
                commands, "PlannedChanges", lambda path, dying=dying: PlannedChanges(path, dying)
            )
            try:
                assert run("recover", "--data", str(broker.data), "--yes").exit_code == 0
                break
            except _Died:
                changes += 1
        again = run("recover", "--data", str(broker.data), "--yes")
        assert again.exit_code == 0, again.output
        assert "Nothing to do" in run("recover", "--data", str(broker.data)).output
        assert strays(broker) == []
        assert (broker.data / "payments-0").is_dir()
    assert changes >= 7
    broker.start()
    assert state_of(broker) == before


def test_a_backup_of_a_running_broker_is_complete(broker: Oncelog, tmp_path: Path) -> None:
    _fill(broker)
    before = state_of(broker)
    target = tmp_path / "backup"
    result = run("backup", str(target), "--data", str(broker.data))
    assert result.exit_code == 0, result.output
    assert "topics at revision" in result.output
    assert sorted(path.name for path in target.iterdir()) == [
        "meta.properties",
        STORE,
        COPY,
    ]
    broker.stop()
    for path in broker.data.glob("oncelog-metadata*"):
        path.unlink()
    for path in target.iterdir():
        shutil.copy2(path, broker.data)
    # The start accepts the backup, because the metadata has not changed since, so nothing in the
    # logs is newer.
    broker.start()
    assert state_of(broker) == before
    again = run("backup", str(target), "--data", str(broker.data))
    assert again.exit_code == 1
    assert "is not an empty directory" in again.output
    broker.stop()
    stopped = run("backup", str(tmp_path / "of a stopped one"), "--data", str(broker.data))
    assert stopped.exit_code == 0, stopped.output


def test_a_copy_of_the_store_file_alone_soon_has_every_change(
    broker: Oncelog, tmp_path: Path
) -> None:
    _fill(broker)

    def topics() -> set[str]:
        shutil.copy2(broker.data / STORE, tmp_path / STORE)
        connection = sqlite3.connect(tmp_path / STORE)
        try:
            rows = connection.execute("SELECT key FROM records WHERE key LIKE 'topics/%'")
            return {key for (key,) in rows}
        except sqlite3.Error:
            return set()
        finally:
            connection.close()

    wait_until(lambda: {"topics/orders", f"topics/{LONG}"} <= topics(), "a file with all topics")


def test_backup_says_what_is_wrong(tmp_path: Path) -> None:
    result = run("backup", str(tmp_path / "to"), "--data", str(tmp_path))
    assert result.exit_code == 1
    assert "is not a data directory of oncelog" in result.output
    assert [*tmp_path.iterdir()] == []
