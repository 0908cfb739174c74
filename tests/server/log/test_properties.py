"""The state of the log equals the state computed from its bytes, after any appends, transactions,
crashes and restarts."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.log.errors import AppendError
from oncelog_server.log.log import PartitionLog
from tests.examples import examples
from tests.server.log.driver import Driver, check_invariants, flush, oracle_of, read_all

PRODUCERS = st.integers(1, 4)

KINDS = ["index", "timeindex", "txnindex", "snapshot", "checkpoint"]

STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), st.integers(1, 4)),
        st.tuples(st.just("send"), PRODUCERS, st.integers(1, 3), st.booleans()),
        st.tuples(st.just("again"), PRODUCERS, st.integers(0, 7)),
        st.tuples(st.just("gap"), PRODUCERS, st.integers(1, 5)),
        st.tuples(st.just("mark"), PRODUCERS, st.booleans(), st.booleans()),
        st.tuples(st.sampled_from(["restart", "kill", "flush", "roll", "epoch"])),
        st.tuples(st.just("lose"), st.sampled_from(KINDS), st.booleans()),
    ),
    max_size=60,
)


class Model:
    """Producers that keep their next sequence numbers, as clients do."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.epochs = dict.fromkeys(range(1, 5), 0)
        self.next = dict.fromkeys(range(1, 5), 0)
        self.sent: dict[int, list[tuple[int, int, int]]] = {n: [] for n in range(1, 5)}
        self.open: set[int] = set()

    @property
    def log(self) -> PartitionLog:
        return self.driver.log

    def plain(self, count: int) -> None:
        self.driver.plain(count)

    def send(self, producer: int, count: int, transactional: bool) -> None:
        transactional = transactional or producer in self.open
        sequence = self.next[producer]
        answer = self.driver.send(
            producer, sequence, count, epoch=self.epochs[producer], transactional=transactional
        )
        assert not answer.duplicate
        self.next[producer] += count
        self.sent[producer] = [*self.sent[producer], (sequence, count, answer.base_offset)][-5:]
        if transactional:
            self.open.add(producer)

    def again(self, producer: int, back: int) -> None:
        """Send one of the last five batches again. The log acknowledges it, or refuses it after a
        restart, but never appends it."""
        if back >= len(self.sent[producer]):
            return
        sequence, count, offset = self.sent[producer][-1 - back]
        end = self.log.log_end_offset
        try:
            answer = self.driver.send(
                producer, sequence, count, epoch=self.epochs[producer],
                transactional=producer in self.open,
            )  # fmt: skip
        except AppendError as refused:
            if refused.code != 45 or back == 0:  # the last batch is known after every restart
                raise
        else:
            assert answer.duplicate
            assert answer.base_offset == offset
        assert self.log.log_end_offset == end

    def gap(self, producer: int, width: int) -> None:
        if not self.sent[producer]:
            return
        with pytest.raises(AppendError, match="OUT_OF_ORDER_SEQUENCE_NUMBER"):
            self.driver.send(
                producer, self.next[producer] + width, 1, epoch=self.epochs[producer],
                transactional=producer in self.open,
            )  # fmt: skip

    def mark(self, producer: int, committed: bool, bump: bool) -> None:
        version = 1
        if bump:
            version = 2
            self.epochs[producer] += 1
            self.next[producer] = 0
            self.sent[producer] = []
        elif producer not in self.open:
            return
        epoch = self.epochs[producer]
        self.driver.mark(producer, epoch=epoch, committed=committed, version=version)
        self.open.discard(producer)

    def restart(self) -> None:
        self.driver.restart()

    def kill(self) -> None:
        self.driver.kill()

    def lose(self, kind: str, clean: bool) -> None:
        """Stop, delete all files of a kind, and start."""
        point, start = self.driver.stop()
        for path in [path for path in self.driver.files.nodes if path.endswith(kind)]:
            del self.driver.files.nodes[path]
        self.driver.log = self.driver.open(
            clean=clean, recovery_point=point, log_start_offset=start
        )

    def flush(self) -> None:
        flush(self.log, lambda error: None)
        self.driver.files.settle()

    def roll(self) -> None:
        self.log.roll(self.driver.now_ms)

    def epoch(self) -> None:
        self.driver.leader_epoch += 1


@settings(max_examples=examples(120), deadline=None)
@given(STEPS, st.integers(0, 40))
def test_the_state_of_a_log_equals_the_state_computed_from_its_bytes(
    steps: list[tuple[Any, ...]], watermark: int
) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, name)(*arguments)
    # A restart moves the high watermark to the log end, so all earlier markers are committed.
    restarted = {"restart", "kill", "lose"} & {step[0] for step in steps}
    watermark = model.log.log_end_offset if restarted else min(watermark, model.log.log_end_offset)
    check_invariants(model.log, model.driver.files, watermark)
    model.kill()
    check_invariants(model.log, model.driver.files)
    model.restart()
    check_invariants(model.log, model.driver.files)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.integers(1, 5), st.integers(0, 300)), min_size=1, max_size=40),
    st.data(),
)
def test_a_read_returns_whole_batches_from_its_offset(
    sizes: list[tuple[int, int]], data: st.DataObject
) -> None:
    driver = Driver()
    for count, size in sizes:
        driver.plain(count, size=size)
    if data.draw(st.booleans()):
        driver.restart()
    log = driver.log
    oracle = oracle_of(driver.files)
    for _ in range(10):
        offset = data.draw(st.integers(0, log.log_end_offset))
        limits = [first for first, _ in oracle.positions] + [log.log_end_offset]
        limit = data.draw(st.sampled_from(limits))
        assert read_all(log, offset, limit) == [
            record for record in oracle.records if offset <= record.offset < limit
        ]
