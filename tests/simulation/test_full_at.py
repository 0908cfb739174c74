"""A file of unfinished work, or a refused compaction, is a violation if it stays too long after a
full disk has space again. Work in progress is no violation, nor is a compaction that waits for
another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from oncelog_server.cleaning.cleaner import LogCleaner
from oncelog_server.log.cleaner.job import CleanerStats
from oncelog_server.partition.partition import Partition
from oncelog_server.topic_partition import TopicPartition
from tests.simulation.fault import Fault
from tests.simulation.full_at import HEALED_WITHIN_US, full_for
from tests.simulation.run import run_world
from tests.simulation.test_situations import ONE_WRITER, SEED
from tests.simulation.world import World

SLOW_US = 400_000
MS = 1_000
UNFINISHED = "a-0/00000000000000000000.log.cleaned"
FULL = [Fault(0, 500 * MS, "full", 10 * MS, 0)]


class AlwaysWriting(World):
    """A world in which a checkpoint is always being written, because each takes most of a
    second."""

    def heal(self) -> None:
        super().heal()
        self.node.disk.weather.sync_us = (SLOW_US, SLOW_US)


def test_the_file_of_a_checkpoint_in_progress_is_no_violation() -> None:
    options = replace(ONE_WRITER, flush_on_ack=False, checkpoint_ms=10)
    assert not run_world(SEED, options, FULL, kind=AlwaysWriting).violations


def leaving(*times_ms: int) -> type[World]:
    """Return a world that creates a file at the first of these times after the end of all faults
    (`heal`), removes the file at the second, creates it again at the third, and so on."""

    class Leaving(World):
        def heal(self) -> None:
            if not self.is_healed:
                for index, time_ms in enumerate(times_ms):
                    self.after(time_ms * MS, self._remove if index % 2 else self._create)
            super().heal()

        def _create(self) -> None:
            self.node.disk.create(UNFINISHED)

        def _remove(self) -> None:
            self.node.disk.names.unlink(UNFINISHED)

    return Leaving


DEADLINE_MS = HEALED_WITHIN_US // MS


@pytest.mark.parametrize(
    "times_ms",
    [
        (0,),
        (DEADLINE_MS - 300,),
        (DEADLINE_MS - 2_000, DEADLINE_MS + 300),
        (DEADLINE_MS - 500, DEADLINE_MS - 350, DEADLINE_MS - 250),
    ],
    ids=["from the first moment", "since the last moment", "for 2.3 s", "for a second time"],
)
def test_a_file_that_stays_too_long_is_a_violation(times_ms: tuple[int, ...]) -> None:
    verdict = run_world(SEED, ONE_WRITER, FULL, kind=leaving(*times_ms))
    (violation,) = verdict.violations
    assert violation.endswith(
        f"not healed, although the disk has had space for 5 s: {UNFINISHED} is left"
    )


@pytest.mark.parametrize(
    "times_ms",
    [
        (0, DEADLINE_MS - 300),
        (DEADLINE_MS - 300, DEADLINE_MS + 300),
        (*range(DEADLINE_MS - 2_600, DEADLINE_MS + 2_900, 250),),
    ],
    ids=["gone in time", "short", "always another"],
)
def test_a_file_of_work_in_progress_is_no_violation(times_ms: tuple[int, ...]) -> None:
    assert not run_world(SEED, ONE_WRITER, FULL, kind=leaving(*times_ms)).violations


# --- compactions that wait for one another


class SlowCompactions(World):
    """A world in which the disk refuses every compaction until all clients have ended. After that,
    each sync takes 30 ms, and each log has many segments."""

    async def _create_topics(self) -> None:
        await super()._create_topics()
        self.node.disk.weather.full_for = full_for(("compaction",))

    def heal(self) -> None:
        if self.is_healed:
            return
        assert len(self.node.broker._refused_work) == TRANSACTION_LOGS
        super().heal()
        self.node.disk.weather.sync_us = (30 * MS, 30 * MS)


TRANSACTION_LOGS = ONE_WRITER.transaction_partitions
MANY_SEGMENTS = replace(
    ONE_WRITER,
    segment_bytes=400,
    cleaner_backoff_ms=50,
    cleanable_ratio=0.05,
    transactions=40,
    workloads={"append": 4},
)


def run_compactions() -> list[str]:
    return run_world(SEED, MANY_SEGMENTS, FULL, kind=SlowCompactions).violations


def test_a_compaction_that_waits_for_another_is_no_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended_us: list[int] = []
    passed = LogCleaner.passed

    def noting(self: LogCleaner, partition: Partition, done: CleanerStats | None) -> None:
        ended_us.append(self._clock.monotonic_ms() * MS)
        passed(self, partition, done)

    monkeypatch.setattr(LogCleaner, "passed", noting)
    assert not run_compactions()
    first_us, second_us = ended_us[:TRANSACTION_LOGS]
    assert second_us - first_us > HEALED_WITHIN_US


def test_a_compaction_that_does_not_end_is_a_violation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LogCleaner, "passed", lambda self, partition, done: None)
    (violation,) = run_compactions()
    assert violation.endswith(
        "compaction of __transaction_state-0 does not end;"
        " compaction of __transaction_state-1 does not end"
    )


def test_a_compaction_that_is_not_tried_again_is_a_violation(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refused(self: LogCleaner, name: TopicPartition) -> None:
        raise self._refused[name][0]

    monkeypatch.setattr(LogCleaner, "_retry", refused)
    (violation,) = run_compactions()
    assert violation.endswith(
        "refused work: compaction of __transaction_state-0;"
        " refused work: compaction of __transaction_state-1"
    )
