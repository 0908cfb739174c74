"""What is durable of a sink: the offset of its group for `__oncelog_sink`, partition 0, and that
offset's metadata.

The offset is the number of the next batch: batches below it are done. Kafka takes at most 4096
bytes of metadata (`offset.metadata.max.bytes`).
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
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
    JSON text (`{"topic": {"0": 5}}`); None where it could not be learnt."""

    query_id: str | None
    generation: int
    offset: int
    rows: int = 0
    source_end: str | None = None

    @property
    def last_batch(self) -> str:
        """For messages."""
        return f"batch {self.offset - 1}" if self.offset else "no batch yet"


def encode(state: SinkState) -> OffsetAndMetadata:
    """As it is committed. Where it is too long the sources' end is left out. Raises ValueError for
    a query id that is too long."""
    found: dict[str, Any] = {"queryId": state.query_id, "gen": state.generation, "rows": state.rows}
    if state.source_end is not None:
        found["sourceEnd"] = json.loads(state.source_end)
    text = json.dumps(found, separators=(",", ":"))
    if len(text.encode()) <= MAX_METADATA_BYTES:
        return OffsetAndMetadata(state.offset, text)
    if state.source_end is None:
        raise ValueError(f"the query's id is too long: {len(state.query_id or '')} characters")
    return encode(replace(state, source_end=None))


def decode(stored: OffsetAndMetadata, sink_id: str) -> SinkState:
    """What `encode` wrote. An empty metadata is an operator's, who has set the next batch by hand.
    Raises StateUnreadable."""
    if not stored.metadata:
        return SinkState(None, 0, stored.offset)
    try:
        found = json.loads(stored.metadata)
        end = found.get("sourceEnd")
        return SinkState(
            None if found["queryId"] is None else str(found["queryId"]),
            int(found["gen"]),
            stored.offset,
            int(found["rows"]),
            None if end is None else json.dumps(end, separators=(",", ":")),
        )
    except (AttributeError, KeyError, TypeError, ValueError):
        raise StateUnreadable(
            f"the offset of group {sink_id} for {SINK_PARTITION} is not a sink's: {stored}"
        ) from None
