"""`oncelog logs verify`: intact files pass, and each kind of damage is reported with its place."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import resource
import shutil
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from oncelog_client import Admin, NewTopic, Producer
from oncelog_protocol.records.batch import HEADER_SIZE, split_batches
from oncelog_server.data_directory.lock import DataDirectory
from oncelog_server.offline.commands import logs
from oncelog_server.offline.read_only_files import OPEN_LIMIT, ReadOnlyFiles
from oncelog_server.storage.files import StorageError
from tests.harness.broker import Oncelog
from tests.harness.descriptors import descriptors_in
from tests.harness.waiting import wait_until

SETTINGS = {
    "group.initial.rebalance.delay.ms": "0",
    "transaction.state.log.num.partitions": "1",
    "offsets.topic.num.partitions": "1",
}
TOPIC = "checked"
FIRST = f"{0:020}"


async def write(address: str) -> None:
    """Write a partition of several segments, with committed and aborted transactions."""
    config = {"segment.bytes": "1048576", "index.interval.bytes": "4096"}
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic(TOPIC, 1, 1, configs=config)])
    async with Producer(address, transactional_id="writer") as producer:
        await producer.init_transactions()
        for number in range(60):
            await producer.begin_transaction()
            for _ in range(3):
                await producer.send(TOPIC, b"%d" % number + b"p" * 15_000, b"k")
            if number % 3:
                await producer.commit_transaction()
            else:
                await producer.abort_transaction()


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a data directory after a clean stop."""
    with Oncelog(tmp_path_factory.mktemp("written"), SETTINGS) as broker:
        asyncio.run(write(broker.address))
    assert len(list((broker.data / f"{TOPIC}-0").glob("*.log"))) >= 3
    return broker.data


@pytest.fixture
def data(written: Path, tmp_path: Path) -> Path:
    """Return a copy of the data directory, for a test to damage."""
    return Path(shutil.copytree(written, tmp_path / "data"))


class Verdict(NamedTuple):
    """The output of one call."""

    exit_code: int
    findings: list[dict[str, Any]]
    checked: dict[str, Any]

    @property
    def problems(self) -> list[dict[str, Any]]:
        return [finding for finding in self.findings if finding["severity"] != "note"]


def verify(path: Path) -> Verdict:
    result = CliRunner().invoke(logs, ["verify", "--json", str(path)])
    assert isinstance(result.exception, SystemExit | None), result.output
    *found, last = [json.loads(line) for line in result.stdout.splitlines()]
    assert result.exit_code == (1 if any(f["severity"] != "note" for f in found) else 0)
    return Verdict(result.exit_code, found, last["checked"])


def segments(data: Path) -> list[Path]:
    return sorted((data / f"{TOPIC}-0").glob("*.log"))


def positions(log: Path) -> list[tuple[int, int, int]]:
    """Return (position, base offset, last offset) of each batch."""
    return [
        (at, header.base_offset, header.last_offset)
        for at, header in split_batches(log.read_bytes())
    ]


def overwrite(path: Path, position: int, data: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(position)
        file.write(data)


def digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_a_data_directory_after_a_clean_stop_is_intact_and_stays_unchanged(data: Path) -> None:
    before = digests(data)
    verdict = verify(data)
    assert (verdict.exit_code, verdict.findings) == (0, [])
    assert verdict.checked["partitions"] == 2
    assert verdict.checked["bytes"] == sum(len(log.read_bytes()) for log in data.rglob("*.log"))
    assert digests(data) == before


async def write_one(address: str) -> None:
    async with Admin(address) as admin, Producer(address) as producer:
        await admin.create_topics([NewTopic("short", 1, 1)])
        await producer.send("short", b"v")


def test_a_short_log_without_indexes_is_intact_after_a_clean_stop(tmp_path: Path) -> None:
    with Oncelog(tmp_path, SETTINGS) as broker:
        asyncio.run(write_one(broker.address))
    assert not list((broker.data / "short-0").glob("*index"))
    assert verify(broker.data).findings == []
    (broker.data / "short-0" / f"{FIRST}.index").touch()
    (finding,) = verify(broker.data).findings
    assert f"{FIRST}.timeindex" in str(finding)


def test_the_files_of_a_running_broker_can_be_verified(tmp_path: Path) -> None:
    with Oncelog(tmp_path, SETTINGS) as broker:
        asyncio.run(write(broker.address))
        verdict = verify(broker.data)
    assert verdict.problems == []
    assert verdict.checked["batches"] > 200


def test_a_data_directory_after_a_kill_is_intact(tmp_path: Path) -> None:
    """Files that the next start rebuilds count as no problem."""
    broker = Oncelog(tmp_path, SETTINGS)
    broker.start()
    asyncio.run(write(broker.address))
    broker.kill()
    assert verify(broker.data).problems == []


def test_one_partition_is_checked_by_its_folder(data: Path) -> None:
    assert verify(data / f"{TOPIC}-0").checked["partitions"] == 1


def test_the_folders_of_other_brokers_of_the_machine_are_checked_and_dumped(
    data: Path, tmp_path: Path
) -> None:
    """`serve --brokers` has the directories of the other brokers inside that of the first one."""
    alone = verify(data).checked["partitions"]
    machine = tmp_path / "machine"
    shutil.copytree(data, machine)
    second = machine / "brokers" / "2"
    shutil.copytree(data, second)
    (machine / "brokers" / "3").mkdir()
    assert verify(machine).problems == []
    assert verify(machine).checked["partitions"] == 2 * alone
    log, _ = flip_in_the_middle(second)
    assert str(log) in {problem["path"] for problem in verify(machine).problems}
    dumped = CliRunner().invoke(logs, ["dump", str(machine)])
    assert f"Dumping {log}" in dumped.output
    shutil.rmtree(machine / f"{TOPIC}-0")
    assert f"Dumping {log}" in CliRunner().invoke(logs, ["dump", str(machine)]).output


def test_each_broker_of_the_machine_may_be_running(data: Path, tmp_path: Path) -> None:
    """The end of the log of a running broker may have a part of a batch."""
    machine = tmp_path / "machine"
    second = machine / "brokers" / "2"
    for directory in (machine, second):
        shutil.copytree(data, directory)
    last = segments(second)[-1]
    os.truncate(last, last.stat().st_size - 5)
    assert [problem["path"] for problem in verify(machine).problems if problem["path"] == str(last)]
    lock = DataDirectory(str(second))
    lock.take()
    try:
        assert verify(machine).problems == []
        shown = CliRunner().invoke(logs, ["verify", str(machine)]).output
        assert "(a broker is running on it)" in shown
    finally:
        lock.release()


async def write_compacted(address: str) -> None:
    """Write a few keys repeatedly, in transactions. Every third transaction is aborted."""
    config = {
        "cleanup.policy": "compact",
        "segment.bytes": "1048576",
        "min.cleanable.dirty.ratio": "0.01",
    }
    async with Admin(address) as admin:
        await admin.create_topics([NewTopic("compacted", 1, 1, configs=config)])
    async with Producer(address, transactional_id="compacting") as producer:
        await producer.init_transactions()
        for number in range(60):
            await producer.begin_transaction()
            for key in range(5):
                await producer.send("compacted", b"p" * 10_000, b"%d" % key)
            await (producer.commit_transaction() if number % 3 else producer.abort_transaction())


@pytest.mark.parametrize("stopped", [False, True])
def test_records_removed_by_compaction_are_no_gap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, stopped: bool
) -> None:
    broker = Oncelog(tmp_path, SETTINGS | {"log.cleaner.backoff.ms": "200"})
    checkpoint = broker.data / "cleaner-offset-checkpoint"
    with broker:
        asyncio.run(write_compacted(broker.address))
        wait_until(
            lambda: checkpoint.exists() and "compacted 0" in checkpoint.read_text(),
            "the log is compacted",
        )
        if not stopped:
            assert verify(broker.data).problems == []
    if stopped:
        assert verify(broker.data).problems == []
        monkeypatch.chdir(broker.data / "compacted-0")
        for path in (".", "../compacted-0", "../compacted-0/."):
            assert verify(Path(path)).problems == []
            assert CliRunner().invoke(logs, ["verify", path]).exit_code == 0


def flip_in_the_middle(data: Path) -> tuple[Path, int]:
    log = segments(data)[1]
    at = [position for (position, _, _), (after, _, _) in pairwise(positions(log))
          if after - position > 1000][5]  # fmt: skip
    overwrite(log, at + HEADER_SIZE + 100, b"\xff\x00\xff")
    return log, at


def remove_a_segment(data: Path) -> tuple[Path, int]:
    _, second, third = segments(data)[:3]
    for file in second.parent.glob(f"{second.stem}.*"):
        file.unlink()
    return third, 0


def empty_a_segment(data: Path) -> tuple[Path, int]:
    log = segments(data)[1]
    log.write_bytes(b"")
    return log, 0


def tear_the_end(data: Path) -> tuple[Path, int]:
    log = segments(data)[-1]
    at, _, _ = positions(log)[-1]
    overwrite(log, at + HEADER_SIZE, b"\x00\x00\x00")
    return log, at


def swap_two_batches(data: Path) -> tuple[Path, int]:
    log = segments(data)[0]
    (first, *_), (second, *_), (third, *_) = positions(log)[3:6]
    content = log.read_bytes()
    swapped = content[second:third] + content[first:second]
    overwrite(log, first, swapped)
    return log, first


def drop_a_batch(data: Path) -> tuple[Path, int]:
    log = segments(data)[-1]
    (first, *_), (second, *_) = positions(log)[1:3]
    content = log.read_bytes()
    log.write_bytes(content[:first] + content[second:])
    return log, first


DAMAGES: dict[str, Callable[[Path], tuple[Path, int]]] = {
    "bit flip": flip_in_the_middle,
    "segment gone": remove_a_segment,
    "segment emptied": empty_a_segment,
    "end torn after a clean stop": tear_the_end,
    "batches swapped": swap_two_batches,
    "batch gone": drop_a_batch,
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_damage_of_a_log_is_named_with_file_and_position(data: Path, damage: str) -> None:
    path, position = DAMAGES[damage](data)
    damaged = [finding for finding in verify(data).findings if finding["severity"] == "damage"]
    assert (str(path), position) in [(finding["path"], finding["position"]) for finding in damaged]
    assert all(finding["what"] and finding["to_do"] for finding in damaged)


def test_valid_batches_behind_damage_are_no_torn_end(data: Path) -> None:
    log, at = flip_in_the_middle(data)
    following = next(base for position, base, _ in positions(log) if position > at)
    (finding, *_) = [problem for problem in verify(data).problems if problem["path"] == str(log)]
    assert f"valid batches follow from offset {following}" in finding["what"]


def test_a_torn_end_after_a_crash_is_only_noted(data: Path) -> None:
    log, at = tear_the_end(data)
    (data / ".kafka_cleanshutdown").unlink()
    (data / "recovery-point-offset-checkpoint").unlink()
    verdict = verify(data)
    assert verdict.exit_code == 0
    assert (str(log), at) in [
        (finding["path"], finding["position"]) for finding in verdict.findings
    ]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex", ".snapshot"])
def test_an_index_or_snapshot_that_contradicts_the_log_is_named(data: Path, suffix: str) -> None:
    log = segments(data)[1]
    path = log.with_suffix(suffix)
    content = bytearray(path.read_bytes())
    content[-1] ^= 0xFF
    path.write_bytes(content)
    assert [problem["path"] for problem in verify(data).problems] == [str(path)]


@pytest.mark.parametrize("suffix", [".index", ".timeindex", ".txnindex"])
def test_a_missing_index_file_is_named(data: Path, suffix: str) -> None:
    path = segments(data)[0].with_suffix(suffix)
    path.unlink()
    assert [problem["path"] for problem in verify(data).problems] == [str(path)]


def test_an_index_without_a_log_is_named(data: Path) -> None:
    path = segments(data)[0].with_name("00000000000000000001.index")
    path.write_bytes(b"")
    assert [problem["path"] for problem in verify(data).problems] == [str(path)]


def test_leader_epochs_are_compared_with_the_batches(data: Path) -> None:
    path = data / f"{TOPIC}-0" / "leader-epoch-checkpoint"
    path.write_text("0\n1\n7 0\n")
    assert [problem["path"] for problem in verify(data).problems] == [str(path)]


def test_a_log_that_ends_below_its_recovery_point_is_damage(data: Path) -> None:
    last = segments(data)[-1]
    (at, _, _) = positions(last)[-1]
    with last.open("r+b") as file:
        file.truncate(at)
    found = [
        problem["what"] for problem in verify(data).problems if problem["severity"] == "damage"
    ]
    assert any("was flushed up to" in what for what in found)


@pytest.mark.parametrize("name", ["nothing", "empty"])
def test_a_path_without_a_log_is_reported_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "empty").mkdir()
    result = CliRunner().invoke(logs, ["verify", str(tmp_path / name)])
    assert result.exit_code == 1
    assert len(result.output.splitlines()) == 1
    assert str(tmp_path / name) in result.output


@pytest.fixture(scope="module")
def victim(written: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the data directory for many small changes. Each change is undone after its
    check."""
    return Path(shutil.copytree(written, tmp_path_factory.mktemp("victim") / "data"))


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(chosen=st.data())
def test_every_flipped_bit_of_a_log_is_found(victim: Path, chosen: st.DataObject) -> None:
    """The CRC does not cover the base offset and the leader epoch. The command checks the base
    offset by the order of offsets, and the leader epoch by the order of epochs."""
    log = chosen.draw(st.sampled_from(segments(victim)))
    batches = positions(log)
    at = chosen.draw(st.sampled_from(batches))[0]
    # The whole header, and the first bytes of the records.
    byte = at + chosen.draw(
        st.integers(0, HEADER_SIZE + 20).filter(lambda position: position < 130)
    )
    bit = chosen.draw(st.integers(0, 7))
    before = log.read_bytes()
    try:
        overwrite(log, byte, bytes([before[byte] ^ 1 << bit]))
        assert verify(victim / f"{TOPIC}-0").exit_code == 1
    finally:
        log.write_bytes(before)


def test_a_missing_path_is_reported(tmp_path: Path) -> None:
    found = CliRunner().invoke(logs, ["dump", str(tmp_path / "nosuch-0")])
    assert found.exit_code == 1
    assert "nosuch-0: no such file or folder" in found.output


def test_text_shows_the_same_advice_once_and_json_with_each_finding(data: Path) -> None:
    for log in segments(data):
        log.with_suffix(".timeindex").unlink()
    found = verify(data).problems
    same = [finding["to_do"] for finding in found]
    assert len(same) > len(set(same))
    shown = CliRunner().invoke(logs, ["verify", str(data)])
    assert shown.exit_code == 1
    for finding in found:
        assert finding["what"] in shown.stdout
        assert shown.stdout.count(finding["to_do"]) == 1


def test_the_options_json_and_output_json_do_the_same(data: Path) -> None:
    asked = [["--json"], ["--output", "json"]]
    first, second = (CliRunner().invoke(logs, ["verify", *flags, str(data)]) for flags in asked)
    assert first.stdout == second.stdout
    assert json.loads(second.stdout.splitlines()[-1])["checked"]["partitions"] > 0


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
@pytest.mark.parametrize("command", [["verify"], ["dump", "--side-files"]])
def test_a_directory_may_have_more_files_than_a_process_descriptors(
    data: Path, command: list[str]
) -> None:
    """Without a limit, index files that could not be opened counted as damaged."""
    for number in range(100):
        shutil.copytree(data / f"{TOPIC}-0", data / f"copy-{number}")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (open_descriptors() + OPEN_LIMIT + 20, hard))
    try:
        result = CliRunner().invoke(logs, [*command, str(data)])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert result.exit_code == 0, result.output[-1_000:]


@pytest.mark.skipif(sys.platform != "linux", reason="counts descriptors in /proc")
def test_files_that_are_read_again_keep_the_limit(tmp_path: Path) -> None:
    """A log with many segments is opened before its first byte is read."""
    files = ReadOnlyFiles()
    paths = [tmp_path / str(number) for number in range(2 * OPEN_LIMIT + 1)]
    for path in paths:
        path.write_text(path.name)
    opened = [files.open(str(path)) for path in paths]
    for _ in range(2):
        assert [file.read(0, 9).decode() for file in opened] == [path.name for path in paths]
        assert descriptors_in(tmp_path) == OPEN_LIMIT
    for file in opened:
        file.close()
    assert descriptors_in(tmp_path) == 0


def test_a_file_that_is_opened_again_is_the_same_file(tmp_path: Path) -> None:
    """A running broker may have replaced a segment meanwhile."""
    files = ReadOnlyFiles()
    paths = [tmp_path / str(number) for number in range(OPEN_LIMIT + 1)]
    for path in paths:
        path.write_bytes(b"old")
    first, *_ = [files.open(str(path)) for path in paths]
    assert first.read(0, 3) == b"old"
    first.close()
    paths[0].rename(tmp_path / "aside")
    paths[0].write_bytes(b"new")
    with pytest.raises(StorageError, match="another file has taken this name"):
        first.read(0, 3)
