"""A full disk refuses files of the log cleaner (D6). The cleaner continues once there is space.

A pass compacts one log. A pass that the disk has refused becomes refused work: the cleaner probes
the disk until the disk has space, and then retries the pass.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
import structlog
from msgspec import structs

from oncelog_server.cleaning import cleaner
from oncelog_server.cleaning.cleaner import AFTER_PROBE_MS
from oncelog_server.cluster.delta import ImageDelta
from oncelog_server.cluster.image import ClusterImage, TopicImage
from oncelog_server.log.cleaner.cleanable import Cleanable, cleanable
from oncelog_server.log.cleaner.job import CleanerStats
from oncelog_server.log.config import DELETE
from oncelog_server.log.errors import CorruptLog
from oncelog_server.log.log import PartitionLog
from oncelog_server.partition.partition import Partition
from oncelog_server.refused_work import RETRY_MS
from oncelog_server.storage.files import StorageError
from oncelog_server.storage.layout import CLEANED_SUFFIX, CLEANER_CHECKPOINT
from oncelog_server.topic_partition import TopicPartition
from tests.server.cleaning.cleanings import BACKOFF_MS, SETTINGS, Cleaning, write
from tests.server.storage.memory_files import MemoryFiles
from tests.server.transaction.world import A0, A1

# The largest append that the full disk still accepts, in bytes.
ROOM = 10


@pytest.mark.parametrize("kind", [".log.cleaned", ".timeindex.cleaned", CLEANER_CHECKPOINT])
def test_d6_a_compaction_stopped_by_a_full_disk_completes_when_there_is_space(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The broker logs two events, and begins no other pass while the disk is full."""
    cleaning = Cleaning()
    files = cleaning.world.files
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    append = files.before_append

    def full(node: Any, path: str, data: bytes) -> None:
        if kind in path and len(data) > ROOM:
            raise StorageError("append", path, "No space left on device", len(data))
        append(node, path, data)

    with structlog.testing.capture_logs() as events:
        monkeypatch.setattr(files, "before_append", full)
        started = noted(cleaning)
        cleaning.run(60_000)
        assert compacted.offline is None
        assert compacted.failure is None
        assert len(started) == 1
        assert cleaning.checkpoint() == {}
        assert cleaning.cleaner.uncleanable_count == (kind != CLEANER_CHECKPOINT)
        assert not [name for name in files.nodes if name.endswith(CLEANED_SUFFIX)]
        monkeypatch.setattr(files, "before_append", append)
        cleaning.run(5_000)
    assert A0 in cleaning.checkpoint()
    assert cleaning.cleaner.uncleanable_count == 0
    logged = [event["event"] for event in events if event["event"] != "log compacted"]
    assert logged == ["disk refused", "disk takes it again"]
    assert not [name for name in files.nodes if ".cleaned" in name]


def noted(cleaning: Cleaning) -> list[object]:
    """Return a list to which each pass that begins from now on is added."""
    started: list[object] = []
    cleaning.cleaner._start_work = partial(_noting, started, cleaning.cleaner._start_work)
    return started


def test_d6_no_other_compaction_begins_while_the_disk_refuses_a_rename(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning()
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    rename = files.rename

    def full(path: str, target: str) -> None:
        if path.endswith(CLEANED_SUFFIX):
            raise StorageError("rename", path, "No space left on device")
        rename(path, target)

    monkeypatch.setattr(files, "rename", full)
    started = noted(cleaning)
    cleaning.run(60_000)
    assert len(started) == 1
    monkeypatch.setattr(files, "rename", rename)
    cleaning.run(5_000)
    assert A0 in cleaning.checkpoint()


def refuse_records(files: MemoryFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the disk refuse the records of a pass. The disk accepts a probe, which writes zeros."""
    append = files.before_append

    def full(node: Any, path: str, data: bytes) -> None:
        if path.endswith(CLEANED_SUFFIX) and any(data):
            raise StorageError("append", path, "No space left on device", len(data))
        append(node, path, data)

    monkeypatch.setattr(files, "before_append", full)


def test_d6_a_compaction_refused_after_a_successful_probe_waits_before_its_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = Cleaning()
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    refuse_records(files, monkeypatch)
    started = noted(cleaning)
    cleaning.run(60_000)
    assert 2 <= len(started) <= 1 + 60_000 // AFTER_PROBE_MS


def test_d6_a_pass_begins_as_soon_as_there_is_space_and_the_event_comes_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass does not wait for the cleaner's interval between two passes."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    files.fail_append(match=".log.cleaned", reason="No space left on device")
    with structlog.testing.capture_logs() as events:
        cleaning.run(600_000)
        cleaning.run(5_000)
    logged = [event["event"] for event in events]
    assert logged == ["disk refused", "log compacted", "disk takes it again"]


def test_d6_the_refused_work_ends_as_soon_as_its_retried_pass_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The pass after the first probe is refused too. The next probe comes AFTER_PROBE_MS later."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    files = cleaning.world.files
    write(cleaning.compact(A0), 100)
    append = files.before_append
    refuse_records(files, monkeypatch)
    with structlog.testing.capture_logs() as events:
        cleaning.run(600_000)
        cleaning.run(RETRY_MS)
        monkeypatch.setattr(files, "before_append", append)
        # This is as if the clock were a millisecond behind the timer.
        cleaning.cleaner._refused[A0] = later_by(cleaning.cleaner._refused[A0], 1)
        cleaning.run(AFTER_PROBE_MS)
    logged = [event["event"] for event in events]
    assert logged == ["disk refused", "log compacted", "disk takes it again"]


def later_by(refused: tuple[StorageError, int], by_ms: int) -> tuple[StorageError, int]:
    return refused[0], refused[1] + by_ms


def test_d6_a_log_with_nothing_left_to_clean_ends_its_refused_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """When the probe succeeds, the cleaner finds no log to clean, because of a changed setting."""
    cleaning = Cleaning()
    files = cleaning.world.files
    compacted = cleaning.compact(A0)
    write(compacted, 100)
    files.fail_append(match=".log.cleaned", reason="No space left on device")
    with structlog.testing.capture_logs() as events:
        cleaning.run(BACKOFF_MS)
        assert len(cleaning.refused) == 1
        compacted.reconfigure(structs.replace(compacted.config, min_cleanable_dirty_ratio=1.0))
        cleaning.run(RETRY_MS)
    assert len(cleaning.refused) == 0
    assert [event["event"] for event in events] == ["disk refused", "disk takes it again"]


def refused_once() -> Cleaning:
    """Return a cleaner after a full disk has refused a pass over A0. The pass waits for a retry."""
    cleaning = Cleaning(settings=replace(SETTINGS, log_cleaner_backoff_ms=600_000))
    write(cleaning.compact(A0), 100)
    cleaning.world.files.fail_append(match=".log.cleaned", reason="No space left on device")
    cleaning.run(600_000)
    assert len(cleaning.refused) == 1
    return cleaning


def test_d6_the_refused_work_of_a_compacted_log_ends_before_the_pass_over_another_log(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The cleaner may have no pause between its passes (seed 60851 of the simulation)."""
    cleaning = refused_once()
    write(cleaning.compact(A1), 60)
    seen: list[tuple[TopicPartition, int]] = []
    passed = cleaning.cleaner.passed

    def noting(partition: Partition, done: CleanerStats | None) -> None:
        seen.append((partition.topic_partition, len(cleaning.refused)))
        passed(partition, done)

    monkeypatch.setattr(cleaning.cleaner, "passed", noting)
    cleaning.run(RETRY_MS)
    assert seen == [(A0, 1), (A1, 0)]


def test_d6_a_log_found_corrupt_after_a_full_disk_is_reported_once() -> None:
    cleaning = refused_once()
    closed = cleaning.world.partitions[A0]._log.segments[-2]
    cleaning.world.files.nodes[closed.log.path].data[-1] ^= 1
    with structlog.testing.capture_logs() as events:
        cleaning.run(10 * RETRY_MS)
    assert [event["event"] for event in events] == ["log not compacted", "disk takes it again"]
    assert len(cleaning.refused) == 0
    assert not cleaning.cleaner._probed


def test_d6_a_log_that_the_search_finds_corrupt_ends_only_its_own_refused_work(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The retry of the refused work probes the disk and begins the search in the same turn."""
    cleaning = refused_once()
    others: list[str] = []

    def refused_again() -> None:
        others.append("retried")
        raise StorageError("append", "other", "No space left on device")

    cleaning.refused.add("other", StorageError("append", "other", "no space"), refused_again)

    def corrupt(log: PartitionLog, *given: Any) -> Cleanable | None:
        if log is cleaning.world.partitions[A0]._log:
            raise CorruptLog(log.directory, 0, "a batch with a wrong CRC")
        return cleanable(log, *given)

    monkeypatch.setattr(cleaner, "cleanable", corrupt)
    with structlog.testing.capture_logs() as events:
        cleaning.run(3 * RETRY_MS)
    assert [event["event"] for event in events].count("log not compacted") == 1
    assert (len(cleaning.refused), cleaning.cleaner.uncleanable_count) == (1, 1)
    assert len(others) >= 3


def test_d6_a_log_that_is_not_compacted_any_more_ends_its_refused_work() -> None:
    cleaning = refused_once()
    compacted = cleaning.world.partitions[A0]
    compacted.reconfigure(structs.replace(compacted.config, cleanup_policy=frozenset({DELETE})))
    cleaning.run(RETRY_MS)
    assert (len(cleaning.refused), cleaning.cleaner.uncleanable_count) == (0, 0)


@pytest.mark.parametrize("how", ["closed", "deleted"])
def test_d6_a_log_deleted_while_the_disk_is_full_is_not_retried(how: str) -> None:
    cleaning = Cleaning()
    write(cleaning.compact(A0), 100)
    files = cleaning.world.files
    files.capacity = sum(len(node.data) for node in files.nodes.values())
    cleaning.run(5_000)
    assert cleaning.cleaner.uncleanable_count == 1
    assert len(cleaning.refused) == 1
    cleaning.partitions.remove(A0)
    if how == "deleted":
        topic = TopicImage(A0.topic, bytes(16), "", {}, (), 0)
        delta = ImageDelta(topics_deleted=(topic,))
        cleaning.cleaner.follow(ClusterImage(), ClusterImage(), delta)
    else:
        cleaning.run(5_000)
    assert (len(cleaning.refused), cleaning.cleaner.uncleanable_count) == (0, 0)


def _noting(started: list[object], start_work: Any, job: Any, work: Any) -> Any:
    started.append(job)
    return start_work(job, work)
