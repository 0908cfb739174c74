"""The durable state of a sink: the offset, with metadata, that the sink's consumer group has
committed for partition 0 of the topic `__oncelog_sink`.

The offset is the number of the next batch. All batches below this number are finished. The metadata
have the rest of `SinkState`. Kafka accepts at most 4096 bytes of metadata
(`offset.metadata.max.bytes`). If the metadata are longer, the source end (the offsets at which the
last batch ended in its source) is compressed. If they are still too long, the source end is left
out.
"""

from __future__ import annotations

import base64
import json
import zlib
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, Final

from oncelog_client.values import OffsetAndMetadata, TopicPartition

SINK_PARTITION: Final = TopicPartition("__oncelog_sink", 0)
MAX_METADATA_BYTES: Final = 4096


class StateUnreadable(ValueError):
    """The stored state of a sink is unreadable: no sink has written it, or a newer release has. The
    state is the metadata of an offset, or a record of the sink's log."""


@dataclass(frozen=True, slots=True)
class SinkState:
    """The progress of a sink.

    `query_id`: the query with the batches that `offset` counts. None if this query is unknown: an
    operator has set the offset, or the driver could not read the query's id and no batch is
    committed yet.
    `generation`: the number of the newest generation (`planning`), which fences all older ones.
    `offset`: the number of the next batch.
    `rows`: the number of rows of the last batch.
    `source_end`: the source's offsets at the end of the last batch, as JSON text
    (`{"topic": {"0": 5}}`). None if unknown, or if `is_end_too_long`.
    `is_planner_known`: True if the query that began the generation is `query_id`. False before the
    first commit of the generation, if the driver could not read the checkpoint: only the tasks
    know the query then.
    """

    query_id: str | None
    generation: int
    offset: int
    rows: int = 0
    source_end: str | None = None
    is_end_too_long: bool = False
    is_planner_known: bool = True

    @property
    def last_batch(self) -> str:
        """The number of the last batch, as text for messages."""
        return f"batch {self.offset - 1}" if self.offset else "no batch yet"


def encode(state: SinkState) -> OffsetAndMetadata:
    """Return the offset to commit. Raises ValueError for a query id that is too long."""
    text = _fitting(kept(state))
    if text is None:
        raise ValueError(f"the query's id is too long: {len(state.query_id or '')} characters")
    return OffsetAndMetadata(state.offset, text)


def kept(state: SinkState) -> SinkState:
    """Return the state, without `source_end` if the source end is too long."""
    if state.source_end is None or _fitting(state) is not None:
        return state
    return replace(state, source_end=None, is_end_too_long=True)


def _fitting(state: SinkState) -> str | None:
    """Return the metadata, with the source end compressed if necessary. Return None if the metadata
    are still too long."""
    found: dict[str, Any] = {"queryId": state.query_id, "gen": state.generation, "rows": state.rows}
    if state.is_end_too_long:
        found["sourceEndTooLong"] = True
    if not state.is_planner_known:
        found["plannerUnknown"] = True
    ends: list[dict[str, Any]] = [{}]
    if state.source_end is not None:
        end = json.loads(state.source_end)
        ends = [{"sourceEnd": end}, {"sourceEndPacked": _packed(end)}]
    texts = (_text({**found, **end}) for end in ends)
    return next((text for text in texts if len(text.encode()) <= MAX_METADATA_BYTES), None)


def _text(found: Any) -> str:
    return json.dumps(found, separators=(",", ":"))


def _packed(end: dict[str, dict[str, int]]) -> str:
    """Return the compressed source end. For each topic it has the partition numbers, each as the
    difference from the previous number, and the offsets. Differences of 1 compress to almost
    nothing. The text is base85, because JSON escapes none of its characters."""
    topics = {}
    for topic, offsets in end.items():
        numbers = [0, *map(int, offsets)]
        topics[topic] = [[b - a for a, b in pairwise(numbers)], [*offsets.values()]]
    return base64.b85encode(zlib.compress(_text(topics).encode(), 9)).decode()


def _unpacked(packed: str) -> dict[str, dict[str, int]]:
    topics = json.loads(zlib.decompress(base64.b85decode(packed)))
    return {
        topic: {
            str(partition): offset
            for partition, offset in zip(accumulate(steps), offsets, strict=True)
        }
        for topic, (steps, offsets) in topics.items()
    }


def decode(stored: OffsetAndMetadata, sink_id: str) -> SinkState:
    """Return the state that `encode` has written. Empty metadata come from an operator's tool that
    has set the next batch. Raises StateUnreadable for any other metadata."""
    if not stored.metadata:
        return SinkState(None, 0, stored.offset)
    try:
        found = json.loads(stored.metadata)
        return SinkState(
            None if found["queryId"] is None else str(found["queryId"]),
            int(found["gen"]),
            stored.offset,
            int(found["rows"]),
            _source_end(found),
            is_end_too_long=bool(found.get("sourceEndTooLong")),
            is_planner_known=not found.get("plannerUnknown"),
        )
    except (AttributeError, KeyError, TypeError, ValueError, zlib.error):
        raise StateUnreadable(
            f"the offset of group {sink_id} for {SINK_PARTITION} was not written by a sink:"
            f" {stored}"
        ) from None


def _source_end(found: dict[str, Any]) -> str | None:
    packed = found.get("sourceEndPacked")
    end = found.get("sourceEnd") if packed is None else _unpacked(packed)
    return None if end is None else _text(end)
