"""Encodes rows of a sink as records, batch by batch and partition by partition.

All work is done on whole columns: no row becomes a Python object.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from oncelog_client.values import TopicPartition
from oncelog_protocol.records.record import EncodedRecords

from .row_partitions import StickyPartitions, partitions_for_keys
from .varint_column import TABLE_LIMIT, counting, varints

_INT64: Final = pa.int64()
_HEADERS: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
# Maximum bytes of a record besides key, value and headers: three int32 lengths, offset delta,
# attributes, and a timestamp delta of 0.
_RECORD_OVERHEAD: Final = 22
# Far below the maximum of the int32 offsets in Arrow's columns.
_MOST_BYTES: Final = 1 << 29
_ATTRIBUTES_AND_TIMESTAMP_DELTA: Final = b"\0\0"
_NO_HEADERS: Final = b"\0"

_NONE_OFFLINE: Final[Mapping[str, Collection[int]]] = {}

# The texts of Spark's own connector.
_NO_TOPIC: Final = (
    "topic option required when no 'topic' attribute is present."
    " Use the topic option for setting a topic."
)
_NULL_TOPIC: Final = (
    "null topic present in the data. Use the topic option for setting a default topic."
)


class RowError(ValueError):
    """A row, or a column, cannot be written."""


class RowEncoder:
    """The encoder of one task. The columns are Spark's: `value` and optionally `key` (strings or
    binary), `topic`, `partition`, `headers`. Other columns are ignored.

    `topic` overrides the column. `batch_size`, in bytes, limits a batch. Rows without a key stay
    with a partition for `batch_size` bytes, as in Kafka's producer. `draw(n)` returns a random
    number in 0..n-1, which chooses the next partition.

    The caller is a task, which has a producer. It calls in this order: `topics(rows)`, the
    producer's `partitions_for` for each topic, `outgrown(rows, ...)`, the producer's
    `partitions_now` for each topic that `outgrown` returns, `encode(rows, ...)`, and the producer's
    `send_encoded` for each batch.
    """

    def __init__(self, topic: str | None, batch_size: int, draw: Callable[[int], int]) -> None:
        self._topic = topic
        self._batch_size = batch_size
        self._sticky = StickyPartitions(batch_size, draw)
        self._offline = _NONE_OFFLINE

    def topics(self, rows: pa.RecordBatch) -> list[str]:
        """Return the topics of these rows. Raises RowError for a row without one."""
        return self._topics_of(rows)[0] if rows.num_rows else []

    def outgrown(self, rows: pa.RecordBatch, partition_counts: Mapping[str, int]) -> list[str]:
        """Return the topics for which a row names a partition beyond the known count. Such a topic
        may have got more partitions meanwhile."""
        column = _column(rows, "partition")
        if column is None or column.null_count == len(column):
            return []
        topics, codes = self._topics_of(rows)
        counts = pc.take(pa.array([partition_counts[topic] for topic in topics], _INT64), codes)
        beyond = pc.greater_equal(pc.cast(_plain(column), _INT64), counts)
        return [topics[code] for code in codes.filter(beyond).unique().to_pylist()]

    def encode(
        self,
        rows: pa.RecordBatch,
        partition_counts: Mapping[str, int],
        timestamp_ms: int,
        offline: Mapping[str, Collection[int]] = _NONE_OFFLINE,
    ) -> Iterator[tuple[TopicPartition, EncodedRecords]]:
        """Yield the rows as batches. The rows of a partition keep their order.

        `partition_counts` has the number of partitions of each of `topics(rows)`. `offline` has the
        partitions of topics that have no leader: rows without a key go to others. Every record gets
        `timestamp_ms`. Raises RowError for a row without a topic, a partition that the topic does
        not have, a header without a key, or a column of the wrong type.
        """
        if rows.nbytes > _MOST_BYTES and rows.num_rows > 1:
            half = rows.num_rows // 2
            yield from self.encode(rows.slice(0, half), partition_counts, timestamp_ms, offline)
            yield from self.encode(rows.slice(half), partition_counts, timestamp_ms, offline)
        elif rows.num_rows:
            self._offline = offline
            yield from self._encode(rows, partition_counts, timestamp_ms)

    def _encode(
        self, rows: pa.RecordBatch, partition_counts: Mapping[str, int], timestamp_ms: int
    ) -> Iterator[tuple[TopicPartition, EncodedRecords]]:
        topics, codes = self._topics_of(rows)
        columns = [_binary(rows, "key"), _binary(rows, "value"), _headers(rows)]
        sizes = pc.add(_sum_of_lengths(columns), _RECORD_OVERHEAD)
        counts = [partition_counts[topic] for topic in topics]
        partitions = self._partitions(rows, columns[0], sizes, topics, codes, counts)
        if len(topics) > 1:
            high = pc.shift_left(codes, pa.scalar(32, _INT64))
            partitions = pc.add(high, pc.cast(partitions, _INT64))
        runs = pc.run_end_encode(partitions)
        if len(runs.values) > 1:
            order = pc.sort_indices(partitions)
            runs = pc.run_end_encode(pc.take(partitions, order))
            *columns, sizes = (pc.take(column, order) for column in (*columns, sizes))
        run_ends = runs.run_ends.to_pylist()
        cuts = self._cuts(sizes, run_ends)
        bodies = _bodies(columns[0], columns[1], columns[2], cuts)
        groups = dict(zip((0, *run_ends), runs.values.to_pylist(), strict=False))
        for start, end, body in bodies:
            number = groups.get(start)
            if number is not None:
                partition = TopicPartition(topics[number >> 32], number & 0xFFFFFFFF)
            yield partition, EncodedRecords(body, end - start, timestamp_ms, timestamp_ms)

    # -- topics and partitions

    def _topics_of(self, rows: pa.RecordBatch) -> tuple[list[str], pa.Array]:
        """Return the topics, and for each row the index of the row's topic."""
        if self._topic is not None:
            return [self._topic], pa.repeat(pa.scalar(0, _INT64), rows.num_rows)
        column = _column(rows, "topic")
        if column is None:
            raise RowError(_NO_TOPIC)
        if column.null_count:
            raise RowError(_NULL_TOPIC)
        coded = pc.cast(_plain(column), pa.string()).dictionary_encode()
        return coded.dictionary.to_pylist(), pc.cast(coded.indices, _INT64)

    def _partitions(
        self,
        rows: pa.RecordBatch,
        key: pa.Array,
        sizes: pa.Array,
        topics: Sequence[str],
        codes: pa.Array,
        counts: Sequence[int],
    ) -> pa.Array:
        """Return the partition of each row, as int32."""
        count_of_row = pa.scalar(counts[0], _INT64)
        if len(topics) > 1:
            count_of_row = pc.take(pa.array(counts, _INT64), codes)
        column = _column(rows, "partition")
        chosen = None
        if column is not None and column.null_count < len(column):
            chosen = pc.cast(_plain(column), pa.int32())
            self._check_partitions(chosen, topics, codes, counts, count_of_row)
            if not chosen.null_count:
                return chosen
        if not key.null_count:
            found = partitions_for_keys(key, count_of_row)
        else:
            free = pc.is_null(key)
            if chosen is not None:
                free = pc.and_(free, pc.is_null(chosen))
            found = self._stuck(free, sizes, topics, codes, counts)
            if key.null_count < len(key):
                keyed = partitions_for_keys(pc.fill_null(key, b""), count_of_row)
                found = pc.if_else(free, found, keyed)
        return found if chosen is None else pc.coalesce(chosen, found)

    def _stuck(
        self,
        free: pa.Array,
        sizes: pa.Array,
        topics: Sequence[str],
        codes: pa.Array,
        counts: Sequence[int],
    ) -> pa.Array:
        """Return the sticky partition of each row for which `free` is true: a row with neither a
        key nor an explicit partition."""
        found = None
        for code, (topic, count) in enumerate(zip(topics, counts, strict=True)):
            here = free if len(topics) == 1 else pc.and_(free, pc.equal(codes, code))
            offline = self._offline.get(topic, ())
            stuck = self._sticky.partitions(topic, pc.if_else(here, sizes, 0), count, offline)
            found = stuck if found is None else pc.if_else(here, stuck, found)
        return found

    @staticmethod
    def _check_partitions(
        chosen: pa.Array,
        topics: Sequence[str],
        codes: pa.Array,
        counts: Sequence[int],
        count_of_row: pa.Array | pa.Scalar,
    ) -> None:
        wide = pc.cast(chosen, _INT64)
        wrong = pc.or_(pc.less(wide, 0), pc.greater_equal(wide, count_of_row))
        if pc.any(wrong).as_py():
            row = pc.index(wrong, True).as_py()
            code = codes[row].as_py()
            raise RowError(
                f"a row has partition {chosen[row].as_py()}, but topic {topics[code]} has"
                f" {counts[code]} partitions"
            )

    def _cuts(self, sizes: pa.Array, run_ends: Sequence[int]) -> list[tuple[int, int]]:
        """Return the rows of each batch as (first, end), without the row `end`. Each of `run_ends`
        is the end of a run of rows with the same partition. A batch never crosses the end of a
        run."""
        sums = memoryview(pc.cumulative_sum(sizes).buffers()[1]).cast("q")
        cuts = []
        start = before = 0
        for run_end in run_ends:
            while start < run_end:
                last = min(run_end, start + TABLE_LIMIT)
                end = max(bisect_right(sums, before + self._batch_size, start, last), start + 1)
                cuts.append((start, end))
                start, before = end, sums[end - 1]
        return cuts


# -- columns


def _column(rows: pa.RecordBatch, name: str) -> pa.Array | None:
    index = rows.schema.get_field_index(name)
    return None if index < 0 else rows.column(index)


def _plain(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _binary(rows: pa.RecordBatch, name: str) -> pa.Array:
    """Return a column as binary. A missing column is all nulls."""
    column = _column(rows, name)
    if column is None or pa.types.is_null(column.type):
        return pa.nulls(rows.num_rows, pa.binary())
    try:
        return pc.cast(_plain(column), pa.binary())
    except pa.ArrowNotImplementedError:
        # `from None` hides Arrow's error, which names kernels of Arrow. The user knows only the
        # column.
        raise RowError(f"column {name} is {column.type}, not a string or binary") from None


def _headers(rows: pa.RecordBatch) -> pa.Array:
    """Return the last part of each record: the header count and the headers."""
    column = _column(rows, "headers")
    if column is None or column.null_count == len(column):
        return pa.repeat(pa.scalar(_NO_HEADERS, pa.binary()), rows.num_rows)
    lists = pc.cast(column, _HEADERS)
    entries = lists.flatten()
    names, values = pc.struct_field(entries, "key"), pc.struct_field(entries, "value")
    if names.null_count:
        raise RowError("a row has a header without a key")
    names = pc.cast(names, pa.binary())
    encoded = _joined(varints(pc.binary_length(names)), names, _length(values), values)
    counts = pc.fill_null(pc.list_value_length(lists), 0)
    ends = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(counts)])
    # The headers of a row are adjacent: the bytes of a row end where its last header ends.
    offsets = pa.Array.from_buffers(pa.int32(), len(encoded) + 1, [None, encoded.buffers()[1]])
    offsets = pc.take(offsets, ends)
    buffers = [None, offsets.buffers()[1], encoded.buffers()[2]]
    return _joined(varints(counts), pa.Array.from_buffers(pa.binary(), rows.num_rows, buffers))


def _length(column: pa.Array) -> pa.Array:
    """Return the varint before each key or value: the length, or -1 for null."""
    return varints(pc.fill_null(pc.binary_length(column), -1))


def _sum_of_lengths(columns: Sequence[pa.Array]) -> pa.Array:
    total = pa.scalar(0, _INT64)
    for column in columns:
        total = pc.add(total, pc.fill_null(pc.binary_length(column), 0))
    return total


def _joined(*columns: pa.Array) -> pa.Array:
    """Concatenate the columns row by row; a null adds nothing."""
    return pc.binary_join_element_wise(
        *columns, pa.scalar(b"", pa.binary()), null_handling="replace", null_replacement=""
    )


def _bodies(
    key: pa.Array, value: pa.Array, headers: pa.Array, cuts: Sequence[tuple[int, int]]
) -> Iterator[tuple[int, int, memoryview]]:
    """Yield (first, end, bytes of the records) for each batch. `cuts` has the rows of each batch,
    as (first, end). Offset deltas start at 0 in each batch."""
    deltas = pa.concat_arrays([counting(end - start) for start, end in cuts])
    before = pa.scalar(_ATTRIBUTES_AND_TIMESTAMP_DELTA, pa.binary())
    columns: list[Any] = [deltas, _length(key), key, _length(value), value, headers]
    sizes = pc.add(_sum_of_lengths(columns), len(_ATTRIBUTES_AND_TIMESTAMP_DELTA))
    records = _joined(varints(sizes), before, *columns)
    _, offsets, data = records.buffers()
    ends, body = memoryview(offsets).cast("i"), memoryview(data)
    for start, end in cuts:
        yield start, end, body[ends[start] : ends[end]]
