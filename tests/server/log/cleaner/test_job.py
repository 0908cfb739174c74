"""The job of a pass is prepared and sent to the cleaner process without a long step of the event
loop, however many producers and aborted transactions the log has."""

from __future__ import annotations

import pickle
import pickletools
from collections import deque

import pytest

from oncelog_server.log.cleaner import cleanable as preparation
from oncelog_server.log.cleaner.aborted_rows import AbortedRows
from oncelog_server.log.cleaner.cleanable import job_for
from oncelog_server.log.cleaner.job import CleaningJob
from oncelog_server.log.cleaner.last_batches import NO_OFFSET, LastBatches, LastOfProducer
from oncelog_server.log.txn_index import AbortedTransaction
from oncelog_server.slices import at_its_end
from tests.server.between_steps import Calls
from tests.server.log.cleaner.compacting import LIMITS, Compacting, job_of
from tests.server.log.driver import apply_retention, delete_records_before

FEW = 10


def written(producers: int) -> Compacting:
    """Return a log with an aborted transaction of each producer."""
    driver = Compacting()
    for producer_id in range(producers):
        driver.put((f"k{producer_id}", "v"), producer_id=producer_id, sequence=0, epoch=0,
                   transactional=True)  # fmt: skip
        driver.mark(producer_id, committed=False)
    driver.roll()
    driver.put(("a", "at the end"))
    driver.files.settle()
    return driver


def job_over(driver: Compacting) -> CleaningJob:
    found = driver.cleanable()
    assert found is not None
    return job_of(found, driver.now_ms)


def pickled_objects(job: CleaningJob) -> int:
    """Return the number of steps by which the job is pickled, without those for its segments."""
    data = pickle.dumps(job._replace(sources=()), protocol=pickle.HIGHEST_PROTOCOL)
    return sum(1 for _ in pickletools.genops(data))


def test_a_job_is_pickled_in_a_number_of_steps_that_does_not_depend_on_its_producers() -> None:
    """A job with 100,000 producers took a third of a second."""
    few, many = job_over(written(FEW)), job_over(written(5 * FEW))
    assert len(list(many.aborted)) == 5 * FEW
    assert pickled_objects(many) == pickled_objects(few)


def test_the_cleaner_process_gets_the_job_that_was_sent() -> None:
    driver = written(FEW)
    sent = job_over(driver)
    job: CleaningJob = pickle.loads(pickle.dumps(sent))
    rows = driver.log.aborted_transactions(0, driver.log.log_end_offset)
    assert list(job.aborted) == rows
    for entry in driver.log.producers:
        expected = LastOfProducer(
            entry.last_offset if entry.batches else NO_OFFSET, entry.producer_epoch
        )
        assert job.producers.get(entry.producer_id) == expected
    assert job.producers.get(99) is None


def test_a_job_with_many_producers_is_prepared_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(preparation, "ROWS_AT_ONCE", FEW)
    driver = written(5 * FEW)
    found = driver.cleanable()
    assert found is not None
    calls = Calls()
    deque(calls.counted(job_for(found, LIMITS, driver.now_ms)), maxlen=0)
    assert calls.steps >= 2 * 5


def test_a_job_is_none_if_retention_deletes_segments_while_it_is_prepared() -> None:
    driver = written(5 * FEW)
    found = driver.cleanable()
    assert found is not None
    steps = job_for(found, LIMITS, driver.now_ms)
    next(steps)
    delete_records_before(driver.log, driver.log.segments[1].base_offset, driver.now_ms)
    apply_retention(driver.log, driver.now_ms, driver.log.log_end_offset)
    driver.files.settle()
    assert at_its_end(steps) is None


def test_rows_and_last_batches_are_those_that_were_added() -> None:
    rows = [AbortedTransaction(1, 2, 3, 4), AbortedTransaction(2**62, 6, 7, 8)]
    assert list(AbortedRows(rows)) == rows
    assert list(AbortedRows()) == []
    last = LastBatches()
    last.add(7, LastOfProducer(NO_OFFSET, 32_767))
    assert last.get(7) == LastOfProducer(NO_OFFSET, 32_767)
    last.add(8, LastOfProducer(2**62, 0))
    assert last.get(8) == LastOfProducer(2**62, 0)
