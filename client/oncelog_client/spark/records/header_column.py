"""The headers column, as in Spark: a list of keys and values, null for a record without headers."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_protocol.records.record import HEADER_KEY_ERRORS, Bytes

from .record_columns import RecordPositions, Unusual, as_column, gather, length_of, nulls, varints

_INT64: Final = pa.int64()
_ENTRY: Final = pa.struct([("key", pa.string()), ("value", pa.binary())])
HEADERS: Final = pa.list_(pa.field("element", _ENTRY))
# Maximum number of headers of a record here. The ordinary decoder decodes records with more
# headers.
_MOST: Final = 64


def headers_column(data: Bytes, found: RecordPositions) -> pa.Array:
    """Return the headers column. Raises Unusual if a record has very many headers, if a key is not
    UTF-8, or if the headers do not end where their record ends."""
    if isinstance(found.headers_count, pa.Scalar) and not found.headers_count.as_py():
        return pa.nulls(found.rows, HEADERS)
    try:
        return _headers_column(data, found)
    except IndexError as error:
        raise Unusual(str(error)) from None


def _headers_column(data: Bytes, found: RecordPositions) -> pa.Array:
    numbers, position = varints(data, found.headers_start)
    count = as_column(length_of(numbers), found.rows)
    most = pc.max(count).as_py()
    if most > _MOST:
        raise Unusual("the count of headers")
    # Decode the first header of every record that has one, then the second header, and so on.
    rows = pa.table(
        {
            "row": pa.array(range(found.rows), _INT64),
            "count": count,
            "position": position,
            "end": found.end,
        }
    )
    parts = []
    for number in range(most):
        rows = rows.filter(pc.greater(rows["count"], number)).combine_chunks()
        part = _headers_at(data, rows["position"].chunk(0))
        rows = rows.set_column(2, "position", part["value_end"])
        is_last = pc.equal(rows["count"], number + 1)
        if not pc.all(pc.or_(pc.invert(is_last), pc.equal(rows["position"], rows["end"]))).as_py():
            raise Unusual("headers do not end with their record")
        parts.append(part.append_column("row", rows["row"]))
    entries = pa.concat_tables(parts).sort_by("row").combine_chunks()
    starts_and_ends = pa.concat_arrays([pa.array([0], _INT64), pc.cumulative_sum(count)])
    return pa.ListArray.from_arrays(
        pc.cast(starts_and_ends, pa.int32()),
        _entries(data, entries),
        type=HEADERS,
        mask=pc.equal(count, 0),
    )


def _headers_at(data: Bytes, position: pa.Array) -> pa.Table:
    """Return the positions of key and value of the header at each position."""
    length, key_start = varints(data, position)
    key_end = pc.add(key_start, length_of(length))
    length, value_start = varints(data, key_end)
    is_null = nulls(length)
    return pa.table(
        {
            "key_start": key_start,
            "key_end": key_end,
            "value_start": value_start,
            "value_end": pc.add(value_start, pc.shift_right(length, 1)),
            "value_null": as_column(
                pa.scalar(False) if is_null is None else is_null, len(position)
            ),
        }
    )


def _entries(data: Bytes, places: pa.Table) -> pa.Array:
    columns = [places[name].chunk(0) for name in places.column_names]
    key_start, key_end, value_start, value_end, value_null, _ = columns
    keys = gather(data, key_start, key_end, None, len(places))
    try:
        keys = pc.cast(keys, pa.string())
    except pa.ArrowInvalid:
        raise Unusual("a header's key is not UTF-8") from None
    values = gather(data, value_start, value_end, value_null, len(places))
    return pa.StructArray.from_arrays([keys, values], fields=list(_ENTRY))


def plain_headers(headers: Iterable[tuple[str, bytes | None]]) -> list[dict[str, Any]] | None:
    """Return the headers of a `Record` in the form that `pa.array` takes, or None if there are
    none."""
    return [{"key": _text(key), "value": value} for key, value in headers] or None


def _text(key: str) -> str:
    """Return the key with the replacement character for bytes that are not UTF-8, as Java does."""
    return key.encode("utf-8", HEADER_KEY_ERRORS).decode("utf-8", "replace")
