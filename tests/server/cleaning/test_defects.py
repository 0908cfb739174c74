"""A defect with one log ends neither the cleaner nor the compaction of other logs. The defect is
logged with its traceback, and the log is tried again later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import structlog
from msgspec import structs

from oncelog_server.cleaning import cleaner, cleaner_pass, slices
from oncelog_server.cleaning.cleaner import REST_MS
from oncelog_server.log.cleaner.cleanable import Cleanable, cleanable, job_for
from oncelog_server.log.cleaner.cleaning import clean
from oncelog_server.log.cleaner.job import CleaningJob
from oncelog_server.log.cleaner.replacement import Replacement
from oncelog_server.log.config import COMPACT, DELETE
from oncelog_server.partition.partition import Partition
from oncelog_server.slices import at_its_end
from tests.server.cleaning.cleanings import BACKOFF_MS, Cleaning, write
from tests.server.transaction.world import A0, A1


def both_dirty() -> Cleaning:
    cleaning = Cleaning()
    write(cleaning.compact(A0), 200)
    write(cleaning.compact(A1), 100)
    return cleaning


def test_a_log_whose_segments_retention_deletes_before_its_pass_does_not_end_the_cleaner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """With more than a hundred logs, a search takes several turns of the event loop. Retention may
    delete the segments of the chosen log in one of them."""
    monkeypatch.setattr(cleaner, "LOGS_AT_ONCE", 2)
    cleaning = both_dirty()
    world, first = cleaning.world, cleaning.world.partitions[A0]
    first.reconfigure(
        structs.replace(first.config, cleanup_policy=frozenset({COMPACT, DELETE}), retention_ms=1)
    )
    found: list[Partition] = []
    examine = cleaning.cleaner._cleanable

    def then_expire(partition: Partition, now_ms: int) -> Cleanable | None:
        if partition is first and not found:
            found.append(partition)
            result = examine(partition, now_ms)
            assert result is not None
            world.timers.call_soon(lambda: expire(first))
            return result
        return examine(partition, now_ms)

    def expire(partition: Partition) -> None:
        assert at_its_end(partition.apply_retention(world.wall() + 10_000))

    monkeypatch.setattr(cleaning.cleaner, "_cleanable", then_expire)
    with structlog.testing.capture_logs() as events:
        cleaning.run(BACKOFF_MS)
    assert found
    assert list(cleaning.checkpoint()) == [A1]
    assert [event["event"] for event in events] == ["log compacted"]
    write(first, 200)
    cleaning.run(3 * BACKOFF_MS)
    assert A0 in cleaning.checkpoint()


def raises(*given: Any, **more: Any) -> Any:
    raise ValueError("a defect")


def in_the_search(monkeypatch: pytest.MonkeyPatch, cleaning: Cleaning) -> None:
    log = cleaning.world.partitions[A0]._log

    def defective(examined: Any, *given: Any) -> Any:
        return raises() if examined is log else cleanable(examined, *given)

    monkeypatch.setattr(cleaner, "cleanable", defective)


def in_the_job(monkeypatch: pytest.MonkeyPatch, cleaning: Cleaning) -> None:
    log = cleaning.world.partitions[A0]._log

    def defective(found: Cleanable, *given: Any) -> Any:
        yield
        if found.log is log:
            raises()
        return (yield from job_for(found, *given))

    monkeypatch.setattr(cleaner_pass, "job_for", defective)


def of_the_replacement(name: str) -> Callable[[pytest.MonkeyPatch, Cleaning], None]:
    def install(monkeypatch: pytest.MonkeyPatch, cleaning: Cleaning) -> None:
        log = cleaning.world.partitions[A0]._log
        whole = getattr(Replacement, name)

        def defective(self: Replacement, *given: Any) -> Any:
            return raises() if self._log is log else whole(self, *given)

        monkeypatch.setattr(Replacement, name, defective)

    return install


def in_the_start(monkeypatch: pytest.MonkeyPatch, cleaning: Cleaning) -> None:
    start = cleaning.cleaner._start_work

    def defective(job: CleaningJob, listener: Any) -> Any:
        return raises() if "a-0" in job.sources[0].path else start(job, listener)

    monkeypatch.setattr(cleaning.cleaner, "_start_work", defective)


def in_the_steps(monkeypatch: pytest.MonkeyPatch, cleaning: Cleaning) -> None:
    def defective(job: CleaningJob, files: Any) -> Any:
        if "a-0" in job.sources[0].path:
            raises()
        yield from clean(job, files)

    monkeypatch.setattr(slices, "clean", defective)


DEFECTS = {
    "search": in_the_search,
    "job": in_the_job,
    "start": in_the_start,
    "steps": in_the_steps,
    "write": of_the_replacement("write"),
    "finish": of_the_replacement("finish"),
    "swap": of_the_replacement("swap"),
}


@pytest.mark.parametrize("where", DEFECTS)
def test_a_defect_ends_only_the_pass_over_its_log(
    where: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    cleaning = both_dirty()
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as events:
        DEFECTS[where](patch, cleaning)
        cleaning.run(5 * BACKOFF_MS)
    assert list(cleaning.checkpoint()) == [A1]
    assert cleaning.cleaner.uncleanable_count == 1
    (failed,) = [event for event in events if event["event"] == "log not compacted"]
    assert failed["partition"] == "a-0"
    assert isinstance(failed["exc_info"], ValueError)
    assert not [name for name in cleaning.world.files.nodes if name.endswith((".cleaned", ".swap"))]
    cleaning.run(REST_MS)
    assert set(cleaning.checkpoint()) == {A0, A1}
    assert cleaning.cleaner.uncleanable_count == 0


def test_a_defect_of_the_search_itself_does_not_end_the_cleaner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cleaning = both_dirty()
    with monkeypatch.context() as patch, structlog.testing.capture_logs() as events:
        patch.setattr(cleaning.cleaner, "_is_candidate", raises)
        cleaning.run(BACKOFF_MS)
    assert [event["event"] for event in events] == ["the search for a log to compact failed"]
    cleaning.run(3 * BACKOFF_MS)
    assert set(cleaning.checkpoint()) == {A0, A1}
