"""The rows of a transaction index, one for each aborted transaction: their bytes, and the rows that
a reader of a range gets."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from oncelog_server.log.txn_index import AbortedTransaction, TxnIndex, encode_row


def history(choices: list[int]) -> list[AbortedTransaction]:
    """Return rows as a log writes them. Each choice opens a transaction or aborts an open
    transaction."""
    rows: list[AbortedTransaction] = []
    opened: list[tuple[int, int]] = []
    for offset, choice in enumerate(choices):
        if choice < 4 or not opened:
            opened.append((offset, offset))
            continue
        producer, first = opened.pop(choice % len(opened))
        stable = min((start for _, start in opened), default=offset + 1)
        rows.append(AbortedTransaction(producer, first, offset, stable))
    return rows


@given(st.lists(st.integers(0, 9), max_size=40), st.integers(0, 45), st.integers(0, 45))
def test_a_reader_gets_all_aborted_transactions_that_overlap_its_range(
    choices: list[int], first: int, end: int
) -> None:
    rows = history(choices)
    data = b"".join(map(encode_row, rows))
    assert len(data) == 34 * len(rows)
    index = TxnIndex.decode(data)
    assert index is not None
    assert index.rows == rows
    found: list[AbortedTransaction] = []
    ended = index.collect(first, end, found)
    wanted = [row for row in rows if row.last_offset >= first and row.first_offset < end]
    assert found == wanted
    if ended:  # later rows belong to transactions that begin at or after `end`
        assert any(row.last_stable_offset >= end for row in rows)


@given(st.lists(st.integers(0, 9), min_size=8, max_size=40), st.data())
def test_l13_a_flipped_byte_changes_the_checksum_or_is_refused(
    choices: list[int], data: st.DataObject
) -> None:
    rows = history(choices)
    if not rows:
        return
    encoded = bytearray(b"".join(map(encode_row, rows)))
    good = TxnIndex.decode(bytes(encoded))
    assert good is not None
    encoded[data.draw(st.integers(0, len(encoded) - 1))] ^= data.draw(st.integers(1, 255))
    bad = TxnIndex.decode(bytes(encoded))
    assert bad is None or bad.crc != good.crc


def test_the_checksum_covers_an_appended_row() -> None:
    row = AbortedTransaction(1, 2, 3, 4)
    index = TxnIndex()
    index.append(row, encode_row(row))
    index.append(row._replace(last_offset=9), encode_row(row._replace(last_offset=9)))
    decoded = TxnIndex.decode(encode_row(row) + encode_row(row._replace(last_offset=9)))
    assert decoded is not None
    assert index.crc == decoded.crc
