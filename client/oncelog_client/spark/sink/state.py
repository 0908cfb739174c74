"""What is durable of a sink: the offset of its group for `__oncelog_sink`, partition 0, and that
offset's metadata.

The offset is the number of the next batch: batches below it are done. Kafka takes at most 4096
bytes of metadata (`offset.metadata.max.bytes`): where the sources ended is compressed if it takes
more room than that, and left out if there is none even so.
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
    """The offset of a sink was not written by a sink."""


@dataclass(frozen=True, slots=True)
class SinkState:
    """`query_id`: whose batches are counted, None where no query has committed yet or an operator
    has set the offset. `rows`: of the last batch. `source_end`: where it ended in its sources, as
    JSON text (`{"topic": {"0": 5}}`); None where it could not be learnt, or where it
    `is_end_too_long`. `is_planner_known`: whether whoever began the generation is the query; one
    whose checkpoint cannot be read is known to its tasks only."""

    query_id: str | None
    generation: int
    offset: int
    rows: int = 0
    source_end: str | None = None
    is_end_too_long: bool = False
    is_planner_known: bool = True

    @property
    def last_batch(self) -> str:
        """For messages."""
        return f"batch {self.offset - 1}" if self.offset else "no batch yet"


def encode(state: SinkState) -> OffsetAndMetadata:
    """As it is committed. Raises ValueError for a query id that is too long."""
    text = _fitting(kept(state))
    if text is None:
        raise ValueError(f"the query's id is too long: {len(state.query_id or '')} characters")
    return OffsetAndMetadata(state.offset, text)


def kept(state: SinkState) -> SinkState:
    """What there is room for: without the sources' end where there is none for that."""
    if state.source_end is None or _fitting(state) is not None:
        return state
    return replace(state, source_end=None, is_end_too_long=True)


def _fitting(state: SinkState) -> str | None:
    """The metadata; None where they are too long."""
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
    """Of each topic the partitions, as steps from one to the next, and the offsets: steps of 1 take
    no room once they are compressed. None of the characters of b85 is escaped in JSON."""
    topics = {}
    for topic, offsets in end.items():
        numbers = [0, *map(int, offsets)]
        topics[topic] = [[b - a for a, b in pairwise(numbers)], [*offsets.values()]]
    return base64.b85encode(zlib.compress(_text(topics).encode(), 9)).decode()


def _unpacked(packed: str) -> dict[str, dict[str, int]]:
    topics = json.loads(zlib.decompress(base64.b85decode(packed)))
    return {
        topic: {str(one): offset for one, offset in zip(accumulate(steps), offsets, strict=True)}
        for topic, (steps, offsets) in topics.items()
    }


def decode(stored: OffsetAndMetadata, sink_id: str) -> SinkState:
    """What `encode` wrote. An empty metadata is an operator's, who has set the next batch by hand.
    Raises StateUnreadable."""
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
            f"the offset of group {sink_id} for {SINK_PARTITION} is not a sink's: {stored}"
        ) from None


def _source_end(found: dict[str, Any]) -> str | None:
    packed = found.get("sourceEndPacked")
    end = found.get("sourceEnd") if packed is None else _unpacked(packed)
    return None if end is None else _text(end)
