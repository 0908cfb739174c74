"""The audit of the fault tests finds duplicates, losses and partly visible batches."""

from __future__ import annotations

from pathlib import Path

from tests.spark.audit import Partial, Sighting, judge, planned_batches

FIRST, SECOND = (
    frozenset(Sighting(topic, f"0:{offset}") for topic in ("invoices", "shipments"))
    for offset in (0, 1)
)
BATCHES = {0: FIRST, 1: SECOND}


def test_rows_that_appear_once_and_batch_by_batch_are_exactly_once() -> None:
    verdict = judge(BATCHES, [[], [*FIRST], [*SECOND]])
    assert not any(verdict)


def test_several_batches_may_become_visible_at_one_moment() -> None:
    assert not any(judge(BATCHES, [[*FIRST, *SECOND]]))


def test_a_row_seen_again_is_a_duplicate() -> None:
    row, *_ = FIRST
    assert judge(BATCHES, [[*FIRST], [row, *SECOND]]).duplicates == {row: 2}


def test_a_row_that_never_appears_is_a_loss_and_its_batch_is_partial() -> None:
    row, *rest = SECOND
    verdict = judge(BATCHES, [[*FIRST], rest])
    assert verdict.losses == {row}
    assert verdict.partial == [Partial(1, 1, 1, 2)]


def test_a_batch_is_partial_at_every_moment_until_it_is_whole() -> None:
    row, *rest = FIRST
    verdict = judge(BATCHES, [[row], [*SECOND], rest])
    assert [(batch.snapshot, batch.batch) for batch in verdict.partial] == [(0, 0), (1, 0)]
    assert not verdict.losses


def test_a_row_of_no_batch_is_unknown() -> None:
    row = Sighting("invoices", "7:7")
    assert judge(BATCHES, [[*FIRST, row], [*SECOND]]).strangers == {row}


def test_planned_batches_are_read_from_the_checkpoint(tmp_path: Path) -> None:
    offsets = tmp_path / "offsets"
    offsets.mkdir()
    (offsets / ".10.crc").touch()
    for number, ends in {2: '{"0":0}', 9: '{"0":1}', 10: '{"0":2,"1":1}'}.items():
        (offsets / str(number)).write_text(f'v1\n{{}}\n{{"purchases":{ends}}}')
    assert planned_batches(str(tmp_path), "purchases", ["invoices"]) == {
        2: frozenset(),
        9: {Sighting("invoices", "0:0")},
        10: {Sighting("invoices", "0:1"), Sighting("invoices", "1:0")},
    }
