"""Columns of varints, looked up in a table."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_protocol.records.zigzag import encode_varint

# The table has only numbers below this. If a column has a greater number, each of its different
# numbers is encoded once, in a loop.
TABLE_LIMIT: Final = 1 << 17
_SMALLEST: Final = 1 << 10


class _Table:
    """The varints of -1, 0, 1 and so on. The column grows on demand."""

    def __init__(self) -> None:
        self._column = pa.array([encode_varint(-1)], pa.binary())

    def up_to(self, number: int) -> pa.Array:
        """Return the varints up to `number` or further. `number` is below TABLE_LIMIT."""
        have = len(self._column) - 1
        if number >= have:
            want = min(max(_SMALLEST, 2 * number), TABLE_LIMIT)
            more = [encode_varint(new) for new in range(have, want)]
            self._column = pa.concat_arrays([self._column, pa.array(more, pa.binary())])
        return self._column


_table: Final = _Table()


def varints(numbers: pa.Array) -> pa.Array:
    """Return the zigzag varint of each number, -1 or more, as binary."""
    most = pc.max(numbers).as_py()
    if most is None:
        return pa.array([], pa.binary())
    if most < TABLE_LIMIT:
        return pc.take(_table.up_to(most), pc.add(numbers, 1))
    coded = numbers.dictionary_encode()
    encoded = [encode_varint(number) for number in coded.dictionary.to_pylist()]
    return pc.take(pa.array(encoded, pa.binary()), coded.indices)


def counting(count: int) -> pa.Array:
    """Return the varints of 0, 1, 2 and so on, `count` of them, at most TABLE_LIMIT."""
    return _table.up_to(max(count - 1, 0)).slice(1, count)
