"""`oncelog storage import` and `export`: nothing is lost, an interrupted run can be run again, and
data that cannot be kept is refused before anything changes."""

from __future__ import annotations

import fcntl
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from oncelog_protocol.internal.cluster_metadata import ConfigRecord
from oncelog_server.data_directory.ownership import ForeignDirectory, check_ownership
from oncelog_server.inspection.folder_records import walk_folder
from oncelog_server.inspection.walk import WalkedBatch
from oncelog_server.log.checkpoints import decode_meta_properties
from oncelog_server.migration.import_command import _locked
from oncelog_server.migration.markers import begin
from oncelog_server.migration.planning.metadata_log import METADATA_LOG
from oncelog_server.offline.read_only_files import ReadOnlyFiles
from tests.faults.exchanges import (
    MORE_GROUPS,
    STILL,
    Died,
    Traffic,
    check_refused,
    dying,
    exchange,
    invoke,
)
from tests.faults.folders import fingerprint
from tests.faults.visible import Visible, visible
from tests.harness.broker import Oncelog
from tests.server.migration.kafka_folder import (
    TOPIC_ID,
    metadata_batch,
    usual_records,
    write_metadata,
    write_partition,
)

# Holds the lock of a file as Java does, until its standard input ends.
HOLD = (
    "import fcntl, sys; file = open(sys.argv[1], 'r+'); fcntl.lockf(file, fcntl.LOCK_EX);"
    " print('locked', flush=True); sys.stdin.read()"
)


@pytest.mark.parametrize("seed", [0, 2])
def test_a_random_directory_goes_from_kafka_to_oncelog_and_back(
    tmp_path: Path, kafka_jars: str, seed: int
) -> None:
    """`python -m tests.faults.exchanges` tries more random directories."""
    exchange(tmp_path, seed)


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Visible]:
    """A data directory of oncelog after a clean stop, and the state of its broker."""
    with Oncelog(tmp_path_factory.mktemp("stopped"), STILL) as broker:
        traffic = Traffic(broker, random.Random(5))
        traffic.run(6)
        broker.stop()  # the next start raises the leader epochs
        broker.start()
        traffic.run(6)
        traffic.end_all()
        state = visible(broker.address, MORE_GROUPS)
        broker.stop()
        return broker.data, state


@pytest.fixture(scope="module")
def kafkas(stopped: tuple[Path, Visible], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same data as a data directory of Apache Kafka."""
    target = tmp_path_factory.mktemp("kafkas") / "data"
    result = invoke("export", str(target), "--data", str(stopped[0]), "--yes")
    assert result.exit_code == 0, result.output
    return target


def check_broker(data: Path, state: Visible, tmp_path: Path) -> None:
    """Check that a broker on a copy of `data` shows `state`."""
    broker = Oncelog(tmp_path / "check", STILL)
    broker.directory.mkdir(parents=True)
    shutil.copytree(data, broker.data)
    with broker:
        assert visible(broker.address, MORE_GROUPS) == state


def die_at_every_change(command: Callable[[], None], target: Path) -> int:
    """Run `command` until it is not interrupted. Return the number of its changes."""
    changes = 0
    while True:
        with dying(changes):
            try:
                command()
                return changes
            except Died:
                if changes > 0:
                    check_refused(target)
                changes += 1


def test_an_import_in_place_may_die_before_its_last_change(
    kafkas: Path, stopped: tuple[Path, Visible], tmp_path: Path
) -> None:
    """The second run finds the directory as the interrupted run has left it."""
    data = tmp_path / "data"
    shutil.copytree(kafkas, data)

    def command() -> None:
        result = invoke("import", str(data), "--yes")
        assert result.exit_code == 0, result.output

    # The last change but one sets the metadata aside. After it, a run only ends the import.
    with dying(7), pytest.raises(Died, match="end"):
        command()
    check_refused(data)
    assert "Only the last step is missing" in invoke("import", str(data)).output
    command()
    check_broker(data, stopped[1], tmp_path)


@pytest.mark.parametrize("changes", range(7))
def test_an_import_in_place_that_died_is_run_again(
    kafkas: Path, stopped: tuple[Path, Visible], tmp_path: Path, changes: int
) -> None:
    data = tmp_path / "data"
    shutil.copytree(kafkas, data)
    with dying(changes), pytest.raises(Died):
        invoke("import", str(data), "--yes")
    check_refused(data)
    assert invoke("import", str(data), "--yes").exit_code == 0
    check_broker(data, stopped[1], tmp_path)


def test_an_import_into_a_folder_may_die_at_every_change(
    kafkas: Path, stopped: tuple[Path, Visible], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    before = fingerprint(kafkas)

    def command() -> None:
        result = invoke("import", str(kafkas), "--into", str(data), "--yes")
        assert result.exit_code == 0, result.output

    assert die_at_every_change(command, data) > 15
    check_broker(data, stopped[1], tmp_path)
    shutil.rmtree(data)
    assert fingerprint(kafkas) == before


def test_an_export_may_die_at_every_change(stopped: tuple[Path, Visible], tmp_path: Path) -> None:
    data = tmp_path / "data"

    def command() -> None:
        result = invoke("export", str(data), "--data", str(stopped[0]), "--yes")
        assert result.exit_code == 0, result.output

    assert die_at_every_change(command, data) > 15
    again = tmp_path / "again"
    assert invoke("import", str(data), "--into", str(again), "--yes").exit_code == 0
    check_broker(again, stopped[1], tmp_path)


def test_a_plan_changes_nothing(
    kafkas: Path, stopped: tuple[Path, Visible], tmp_path: Path
) -> None:
    data = tmp_path / "data"
    shutil.copytree(kafkas, data)
    before = fingerprint(data)
    planned = invoke("import", str(data))
    assert planned.exit_code == 0
    assert f"oncelog storage import {data} --yes" in planned.output
    assert fingerprint(data) == before
    target = tmp_path / "target"
    before = fingerprint(stopped[0])
    planned = invoke("export", str(target), "--data", str(stopped[0]))
    assert planned.exit_code == 0
    assert f"oncelog storage export {target} --data {stopped[0]} --yes" in planned.output
    assert fingerprint(stopped[0]) == before
    assert not target.exists()


@pytest.fixture
def kafka_folder(tmp_path: Path) -> Path:
    """A small directory in Kafka's format, with one topic."""
    path = tmp_path / "kafka"
    write_metadata(path)
    write_partition(path, "orders-0", b"")
    return path


def refused(*arguments: str) -> str:
    """Run a command that fails. Return its output."""
    result = invoke(*arguments)
    assert result.exit_code == 1, result.output
    return result.output


def test_a_refusal_names_everything_and_changes_nothing(kafka_folder: Path) -> None:
    log = kafka_folder / "__cluster_metadata-0" / f"{0:020d}.log"
    more = ConfigRecord(4, "", "log.retention.ms", "1"), ConfigRecord(2, "orders", "unknown", "1")
    with log.open("ab") as file:
        file.write(metadata_batch(1 + len(usual_records()), *more))
    before = fingerprint(kafka_folder)
    output = refused("import", str(kafka_folder), "--yes")
    assert "Cannot be imported:" in output
    assert "the dynamic setting log.retention.ms=1 of all brokers" in output
    assert "topic orders: Unknown topic config name: unknown" in output
    assert "Nothing was changed" in output
    after = fingerprint(kafka_folder)
    after.pop(".lock", None)
    assert after.keys() == before.keys()


def test_a_directory_that_kafka_uses_is_not_imported(kafka_folder: Path) -> None:
    """Java locks by fcntl, oncelog by flock."""
    lock = kafka_folder / ".lock"
    lock.touch()
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdin is not None
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"locked\n"
        for flags in ((), ("--yes",)):
            output = refused("import", str(kafka_folder), *flags)
            assert f"Apache Kafka uses {kafka_folder}: stop it first" in output
        holder.stdin.close()
    assert invoke("import", str(kafka_folder), "--yes").exit_code == 0


def test_an_incomplete_copy_is_not_imported(kafka_folder: Path, tmp_path: Path) -> None:
    """An interrupted export has Kafka's metadata already, and may lack folders."""
    shutil.copytree(kafka_folder, copy := tmp_path / "copy")
    (copy / "oncelog-migration").write_text(f"{tmp_path / 'another'}\n")
    before = fingerprint(copy)
    for flags in ((), ("--into", str(tmp_path / "target"))):
        output = refused("import", str(copy), "--yes", *flags)
        assert "an import or export that has not ended" in output
    assert (copy / ".lock").exists()
    after = fingerprint(copy)
    assert {name: after[name] for name in before if name != "."} == {
        name: before[name] for name in before if name != "."
    }


def test_a_volume_of_its_own_is_a_target(kafka_folder: Path, tmp_path: Path) -> None:
    """The root of a file system has a lost+found directory, which stays."""
    target = tmp_path / "target"
    (target / "lost+found" / "found").mkdir(parents=True)
    assert invoke("import", str(kafka_folder), "--into", str(target), "--yes").exit_code == 0
    assert (target / "lost+found" / "found").is_dir()


def test_holes_of_indexes_are_not_copied(kafka_folder: Path, tmp_path: Path) -> None:
    """After a kill, the indexes of Kafka's active segments have 10 MB each."""
    index = kafka_folder / "orders-0" / f"{0:020d}.index"
    with index.open("wb") as file:
        file.seek(1 << 20)
        file.write(b"in the middle")
        file.truncate(10 << 20)
    target = tmp_path / "target"
    assert invoke("import", str(kafka_folder), "--into", str(target), "--yes").exit_code == 0
    copy = target / "orders-0" / index.name
    assert copy.read_bytes() == index.read_bytes()
    assert copy.stat().st_blocks == index.stat().st_blocks
    assert copy.stat().st_mtime_ns == index.stat().st_mtime_ns


def test_a_directory_without_an_id_gets_one(kafka_folder: Path) -> None:
    meta = kafka_folder / "meta.properties"
    lines = meta.read_text().splitlines()
    meta.write_text("\n".join(line for line in lines if not line.startswith("directory.id")))
    assert invoke("import", str(kafka_folder), "--yes").exit_code == 0
    assert len(decode_meta_properties(meta.read_bytes()).directory_id) == 22


def test_a_damaged_directory_id_is_named(kafka_folder: Path) -> None:
    meta = kafka_folder / "meta.properties"
    meta.write_text(meta.read_text().replace("directory.id=", "directory.id=?"))
    assert "meta.properties is damaged: directory.id" in refused("import", str(kafka_folder))


def test_an_export_needs_every_folder(stopped: tuple[Path, Visible], tmp_path: Path) -> None:
    shutil.copytree(stopped[0], data := tmp_path / "data")
    folder = next(data.glob("t*-0"))
    shutil.rmtree(folder)
    output = refused("export", str(tmp_path / "target"), "--data", str(data), "--yes")
    assert f"{folder.name} has no folder: start the broker, and stop it again" in output
    assert not (tmp_path / "target").exists()


def test_leader_epochs_never_decrease_in_an_exported_log(kafkas: Path) -> None:
    """The moved records are appended in the newest epoch of the partition."""
    moved = 0
    for folder in kafkas.glob("__*_*-*"):
        epochs = [
            batch.found.header.partition_leader_epoch
            for batch in walk_folder(ReadOnlyFiles(), str(folder))
            if isinstance(batch.found, WalkedBatch)
        ]
        assert epochs == sorted(epochs)
        moved += bool(epochs)
    assert moved > 1


@pytest.fixture
def imported(kafka_folder: Path) -> Path:
    """A directory of oncelog on which no broker has started yet."""
    assert invoke("import", str(kafka_folder), "--yes").exit_code == 0
    return kafka_folder


def test_a_second_import_is_refused(imported: Path) -> None:
    output = refused("import", str(imported), "--yes")
    assert "__cluster_metadata-0" in output


def test_an_import_of_something_else_is_refused(tmp_path: Path) -> None:
    assert "is not a directory" in refused("import", str(tmp_path / "missing"))
    for flags in ([], ["--yes"], ["--yes", "--into", str(tmp_path / "target")]):
        assert "it has no meta.properties" in refused("import", str(tmp_path), *flags)
        assert list(tmp_path.iterdir()) == []
    (tmp_path / "meta.properties").touch()
    assert "Apache Kafka has not started on it" in refused("import", str(tmp_path))


@pytest.mark.parametrize("is_linked", ["source", "target"])
def test_a_link_to_the_source_is_no_other_directory(
    kafka_folder: Path, tmp_path: Path, is_linked: str
) -> None:
    """A copy empties its target first."""
    link = tmp_path / "link"
    link.symlink_to(kafka_folder)
    begin(kafka_folder, kafka_folder)
    source, target = (link, kafka_folder) if is_linked == "source" else (kafka_folder, link)
    done = invoke("import", str(source), "--into", str(target), "--yes")
    assert done.exit_code == 0, done.output
    assert (kafka_folder / "orders-0").is_dir()
    assert (kafka_folder / f"{METADATA_LOG}.before.1").is_dir(), "the import was not in place"


def test_apache_kafka_cannot_start_during_an_import_in_place(kafka_folder: Path) -> None:
    """A copied directory has no lock file."""
    (kafka_folder / ".lock").unlink(missing_ok=True)
    holder = [sys.executable, "-c", HOLD.replace("LOCK_EX", "LOCK_EX | fcntl.LOCK_NB")]
    lock = str(kafka_folder / ".lock")
    with _locked(kafka_folder, kafka_folder, changes=True):
        locked = subprocess.run([*holder, lock], capture_output=True, text=True, input="")
    assert "BlockingIOError" in locked.stderr


def test_a_damaged_meta_properties_is_named(kafka_folder: Path) -> None:
    (kafka_folder / "meta.properties").write_text("version=1\n")
    assert "meta.properties is damaged: it has no cluster.id" in refused(
        "import", str(kafka_folder)
    )


def test_a_target_with_files_is_refused(
    kafka_folder: Path, stopped: tuple[Path, Visible], tmp_path: Path
) -> None:
    target = tmp_path / "target"
    target.mkdir()
    (target / "file").touch()
    assert f"{target} is not empty" in refused("import", str(kafka_folder), "--into", str(target))
    assert f"{target} is not empty" in refused("export", str(target), "--data", str(stopped[0]))


def test_a_target_of_another_import_is_refused(kafka_folder: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    write_metadata(other)
    write_partition(other, "orders-0", b"", TOPIC_ID)
    target = tmp_path / "target"
    with dying(1), pytest.raises(Died):
        invoke("import", str(kafka_folder), "--into", str(target), "--yes")
    assert f"{target} is not empty" in refused("import", str(other), "--into", str(target))


def test_directories_in_each_other_are_refused(
    kafka_folder: Path, stopped: tuple[Path, Visible]
) -> None:
    inner = kafka_folder / "inner"
    assert "must not contain each other" in refused(
        "import", str(kafka_folder), "--into", str(inner)
    )
    inner = stopped[0] / "inner"
    assert "must not contain each other" in refused("export", str(inner), "--data", str(stopped[0]))


def test_a_full_disk_is_found_before_the_copy(
    kafka_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=1))
    target = tmp_path / "target"
    output = refused("import", str(kafka_folder), "--into", str(target), "--yes")
    assert "has 1 bytes free" in output


def test_an_export_needs_a_clean_stop(imported: Path, tmp_path: Path) -> None:
    output = refused("export", str(tmp_path / "target"), "--data", str(imported))
    assert "was not stopped cleanly: start it, and stop it again" in output


def test_an_export_needs_a_stopped_broker(stopped: tuple[Path, Visible], tmp_path: Path) -> None:
    with (stopped[0] / ".lock").open() as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        output = refused("export", str(tmp_path / "target"), "--data", str(stopped[0]))
    assert f"(pid {os.getpid()}) uses {stopped[0]}: stop it first" in output


def test_an_export_of_something_else_is_refused(tmp_path: Path) -> None:
    output = refused("export", str(tmp_path / "target"), "--data", str(tmp_path))
    assert "is not a data directory of oncelog" in output


@pytest.mark.parametrize("address", ["localhost:9093", "A://h", "A://h:99999"])
def test_a_wrong_controller_address_is_named(address: str, tmp_path: Path) -> None:
    result = invoke("export", str(tmp_path / "target"), "--controller", address)
    assert result.exit_code == 2
    assert f"{address} is not NAME://HOST:PORT" in result.output


def test_the_refusal_of_a_start_names_the_import(kafka_folder: Path) -> None:
    with pytest.raises(ForeignDirectory, match=f"oncelog storage import {kafka_folder}"):
        check_ownership(kafka_folder)


@pytest.fixture(autouse=True)
def _shared_directory_stays(stopped: tuple[Path, Visible]) -> Iterator[None]:
    """The directory of `stopped` is shared, so no test may change it."""
    before = fingerprint(stopped[0])
    yield
    assert fingerprint(stopped[0]) == before
