"""A file of unfinished work is a violation if it stays too long after a full disk has space again.
A file of work in progress is no violation."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.simulation.fault import Fault
from tests.simulation.full_at import HEALED_WITHIN_US
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
