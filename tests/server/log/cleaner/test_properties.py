"""Compaction changes nothing for readers, producers and offsets, after any writes, ends of
transactions and restarts (L11)."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from oncelog_server.log.cleaner.job import CleaningLimits
from tests.server.log.cleaner.compacting import Compacting, producers_by_scan, read_committed
from tests.server.log.driver import MANY, flush, producers_of

PRODUCERS = st.integers(1, 3)
PAIRS = st.lists(
    st.tuples(st.sampled_from("abcd"), st.one_of(st.none(), st.integers(0, 99).map(str))),
    min_size=1,
    max_size=3,
)
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("plain"), PAIRS),
        st.tuples(st.just("send"), PRODUCERS, PAIRS, st.booleans(), st.integers(0, 4)),
        st.tuples(st.just("transaction"), PRODUCERS, PAIRS, st.booleans(), st.booleans()),
        st.tuples(st.just("mark"), PRODUCERS, st.booleans(), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1, 500, 1_000, 5_000])),
        st.tuples(st.just("compact"), st.sampled_from([2, 3, 1_000])),
        st.tuples(st.just("kill"), st.booleans()),
        st.tuples(st.just("lose"), st.sampled_from(["index", "txnindex", "snapshot"])),
        st.tuples(st.sampled_from(["roll", "restart", "flush", "again"])),
    ),
    min_size=5,
    max_size=60,
)

Row = tuple[int, str, str | None]


class Model:
    """A driver, and the records that its log must have."""

    def __init__(self) -> None:
        self.driver = Compacting()
        self.epochs = dict.fromkeys(range(1, 4), 0)
        self.next = dict.fromkeys(range(1, 4), 0)
        self.last: dict[int, tuple[int, list[tuple[str, str | None]], bool, int]] = {}
        # Offset, key, value. Records of open transactions are separate until they end.
        self.written: list[Row] = []
        self.visible: list[Row] = []
        self.aborted: set[int] = set()
        self.open: dict[int, list[Row]] = {}

    def _note(self, offset: int, pairs: list[tuple[str, str | None]]) -> list[Row]:
        rows = [(offset + n, key, value) for n, (key, value) in enumerate(pairs)]
        self.written += rows
        return rows

    def plain(self, pairs: list[tuple[str, str | None]]) -> None:
        answer = self.driver.put(*pairs, timestamp=self.driver.now_ms)
        self.visible += self._note(answer.base_offset, pairs)

    def send(
        self, producer: int, pairs: list[tuple[str, str | None]], transactional: bool, codec: int
    ) -> None:
        transactional = transactional or producer in self.open
        sequence = self.next[producer]
        answer = self.driver.put(
            *pairs, producer_id=producer, sequence=sequence, epoch=self.epochs[producer],
            transactional=transactional, timestamp=self.driver.now_ms, compression=codec,
        )  # fmt: skip
        self.next[producer] += len(pairs)
        rows = self._note(answer.base_offset, pairs)
        self.last[producer] = (sequence, pairs, transactional, answer.base_offset)
        if transactional:
            self.open.setdefault(producer, []).extend(rows)
        else:
            self.visible += rows

    def mark(self, producer: int, committed: bool, bump: bool) -> None:
        if bump:
            self.epochs[producer] += 1
            self.next[producer] = 0
            self.last.pop(producer, None)
        elif producer not in self.open:
            return
        self.driver.mark(
            producer, epoch=self.epochs[producer], committed=committed, version=2 if bump else 1
        )
        rows = self.open.pop(producer, [])
        if committed:
            self.visible += rows
        else:
            self.aborted |= {offset for offset, _, _ in rows}

    def transaction(
        self, producer: int, pairs: list[tuple[str, str | None]], committed: bool, bump: bool
    ) -> None:
        self.send(producer, pairs, True, 0)
        self.mark(producer, committed, bump)

    def again(self) -> None:
        """Send each producer's last batch again. The log recognizes it and does not append it."""
        end = self.driver.log.log_end_offset
        for producer, (sequence, pairs, transactional, offset) in self.last.items():
            if transactional is not (producer in self.open):
                continue
            answer = self.driver.put(
                *pairs, producer_id=producer, sequence=sequence, epoch=self.epochs[producer],
                transactional=transactional,
            )  # fmt: skip
            assert answer.duplicate
            assert answer.base_offset == offset
        assert self.driver.log.log_end_offset == end

    def wait(self, by_ms: int) -> None:
        self.driver.now_ms += by_ms

    def roll(self) -> None:
        self.driver.roll()

    def flush(self) -> None:
        flush(self.driver.log, lambda error: None)
        self.driver.files.settle()

    def restart(self) -> None:
        self.driver.restart()

    def kill(self, knows_nothing: bool) -> None:
        if knows_nothing:
            self.driver.log.recovery_point = 0
        self.driver.kill()

    def lose(self, kind: str) -> None:
        point, start = self.driver.stop()
        for path in [path for path in self.driver.files.nodes if path.endswith(f".{kind}")]:
            del self.driver.files.nodes[path]
        self.driver.log = self.driver.open(clean=True, recovery_point=point, log_start_offset=start)

    def compact(self, keys_in_map: int) -> None:
        self.driver.limits = CleaningLimits(
            dedupe_buffer_bytes=keys_in_map * 24, io_buffer_bytes=150, step_bytes=1
        )
        before = self.driver.contents()
        scanned = producers_by_scan(self.driver)
        done = self.driver.compact()
        if done is None:
            return
        after = self.driver.contents()
        first_unstable = min((rows[0][0] for rows in self.open.values()), default=MANY)
        assert done.end_offset <= min(first_unstable, self.driver.log.segments.active.base_offset)
        assert set(after) <= set(before)
        gone = {row[0] for row in before} - {row[0] for row in after}
        assert {offset for offset in gone if offset >= done.end_offset} <= self.aborted
        assert not {offset for offset, _, _ in after if offset < done.end_offset} & self.aborted
        self._check_keys(after, done.end_offset)
        assert producers_by_scan(self.driver) == scanned

    def _check_keys(self, after: list[Row], end_offset: int) -> None:
        """Check that the log has the latest record of every key, unless that record is a tombstone.
        If the cleaner's map had space for all keys, the cleaned part has one record of each key."""
        latest = {key: (offset, key, value) for offset, key, value in sorted(self.visible)}
        for row in latest.values():
            assert row[2] is None or row in after, row
        if self.driver.limits.dedupe_buffer_bytes > 1_000:
            clean = [row for row in after if row[0] < end_offset]
            assert len({row[1] for row in clean}) == len(clean), (
                "the cleaned part has two records of one key"
            )

    def check(self) -> None:
        log = self.driver.log
        stable = self.driver.stable()
        first_open = [rows[0][0] for rows in self.open.values()]
        assert stable == min([log.log_end_offset, *first_open])
        expected = {key: value for offset, key, value in sorted(self.visible) if offset < stable}
        seen = read_committed(self.driver)
        assert _there(seen) == _there(expected)
        live = {
            producer: (row[0], *row[2:]) for producer, row in producers_of(log.producers).items()
        }
        assert live == producers_by_scan(self.driver)


def _there(latest: dict[str, str | None]) -> dict[str, str]:
    return {key: value for key, value in latest.items() if value is not None}


@settings(max_examples=300, deadline=None)
@given(STEPS)
def test_l11_compaction_changes_nothing_that_a_reader_may_rely_on(
    steps: list[tuple[object, ...]],
) -> None:
    model = Model()
    for name, *arguments in steps:
        getattr(model, str(name))(*arguments)
        model.check()
    model.roll()
    model.compact(1_000)
    model.check()
    model.kill(True)
    model.check()
    model.again()
