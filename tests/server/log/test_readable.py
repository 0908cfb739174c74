"""The count of readable records equals the number of records that a read_committed reader gets.
This holds with any markers, aborted transactions, segments and compactions."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_protocol.records.batch import read_records, split_batches
from oncelog_protocol.records.control import read_marker
from oncelog_server.log.log import PartitionLog
from oncelog_server.log.readable import STEP_BATCHES, count_readable
from tests.examples import examples
from tests.server.log.cleaner.compacting import Compacting
from tests.server.log.driver import MANY, Driver, delete_records_before
from tests.server.log.test_properties import STEPS, Model
from tests.server.storage.memory_files import MemoryFiles

KEYS = st.sampled_from("abc")


def at_once(steps: Generator[None, None, int]) -> tuple[int, int]:
    """Run the steps. Return their result and their number."""
    number = 0
    while True:
        try:
            next(steps)
            number += 1
        except StopIteration as ended:
            return ended.value, number


def counted(log: PartitionLog, first: int, end: int) -> int:
    return at_once(count_readable(log, first, end))[0]


def visible_offsets(files: MemoryFiles) -> list[int]:
    """Return the offsets of records outside aborted transactions, from all bytes of all
    segments."""
    open_transactions: dict[int, list[int]] = {}
    aborted: set[int] = set()
    offsets: list[int] = []
    for path in sorted(path for path in files.nodes if path.endswith(".log")):
        data = bytes(files.nodes[path].data)
        for position, header in split_batches(data):
            found = read_records(data, position, max_bytes=MANY)
            if header.is_control:
                ended = open_transactions.pop(header.producer_id, [])
                marker = read_marker(found[0]) if found else None
                if marker is not None and not marker.committed:
                    aborted.update(ended)
                continue
            here = [record.offset for record in found]
            offsets += here
            if header.is_transactional:
                open_transactions.setdefault(header.producer_id, []).extend(here)
    return [offset for offset in offsets if offset not in aborted]


def stable(log: PartitionLog) -> int:
    unstable = log.first_unstable_offset(MANY)
    return log.log_end_offset if unstable is None else unstable


@settings(max_examples=examples(80), deadline=None)
@given(STEPS, st.data())
def test_the_count_is_the_number_of_records_that_a_reader_gets(
    steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
    visible = visible_offsets(model.driver.files)
    for most in (stable(model.log), model.log.log_end_offset):
        end = data.draw(st.integers(0, most))
        first = data.draw(st.integers(0, end))
        expected = sum(first <= offset < end for offset in visible)
        assert counted(model.log, first, end) == expected


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("put"), st.lists(KEYS, min_size=1, max_size=4)),
            st.tuples(
                st.just("transaction"), st.lists(KEYS, min_size=1, max_size=3), st.booleans()
            ),
            st.tuples(st.sampled_from(["roll", "compact"])),
        ),
        max_size=30,
    ),
    st.data(),
)
def test_records_removed_by_compaction_are_not_counted(
    steps: list[tuple[Any, ...]], data: st.DataObject
) -> None:
    driver = Compacting()
    sequence = 0
    for name, *arguments in steps:
        if name == "put":
            driver.put(*((key, "x") for key in arguments[0]))
        elif name == "transaction":
            keys, committed = arguments
            driver.put(
                *((key, "t") for key in keys),
                producer_id=7, epoch=0, sequence=sequence, transactional=True,
            )  # fmt: skip
            sequence += len(keys)
            driver.mark(7, committed=committed)
        elif name == "roll":
            driver.roll()
        else:
            driver.compact()
    visible = visible_offsets(driver.files)
    end = data.draw(st.integers(0, driver.log.log_end_offset))
    first = data.draw(st.integers(0, end))
    expected = sum(first <= offset < end for offset in visible)
    assert counted(driver.log, first, end) == expected


def test_the_count_takes_steps_and_retention_may_delete_segments_between_them() -> None:
    driver = Driver()
    for _ in range(4 * STEP_BATCHES):
        driver.plain(2)
    steps = count_readable(driver.log, 0, driver.log.log_end_offset)
    next(steps)
    delete_records_before(driver.log, driver.log.log_end_offset - 10, driver.now_ms)
    count, steps_left = at_once(steps)
    assert count <= 4 * STEP_BATCHES * 2
    assert steps_left >= 1
