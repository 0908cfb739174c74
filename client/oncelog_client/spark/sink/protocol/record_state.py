"""The state of a sink that commits by record: the value of its newest record in the state topic.

Every record has the whole state, because compaction keeps only the newest record of a key. There
are three kinds of record: OPEN begins a generation, COMMIT decides a batch, DONE marks a decision
as carried out.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, Final

from oncelog_client.values import TransactionMember

from .state import SinkState, StateUnreadable
from .steps import Unfinished

FORMAT: Final = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """The content of a record. `state`: the state after the last batch that is done. `unfinished`:
    the decision that is not done yet, with the state after this decision. None if every decision is
    done."""

    state: SinkState
    unfinished: Unfinished | None = None


def encode(entry: Entry) -> bytes:
    """Return a record's value: JSON, so that an operator can read the value in the topic."""
    found = _state(entry.state)
    if entry.unfinished is not None:
        members = [list(member) for member in entry.unfinished.members]
        found["commit"] = {**_state(entry.unfinished.state), "members": members}
    return json.dumps({"format": FORMAT, **found}, separators=(",", ":")).encode()


def _state(state: SinkState) -> dict[str, Any]:
    found: dict[str, Any] = {
        "queryId": state.query_id,
        "gen": state.generation,
        "nextBatch": state.offset,
        "rows": state.rows,
    }
    if not state.is_planner_known:
        found["plannerUnknown"] = True
    if state.source_end is not None:
        found["sourceEnd"] = json.loads(state.source_end)
    return found


def decode(value: bytes, sink_id: str) -> Entry:
    """Read a record's value. Raises StateUnreadable for a value that was not written by a
    sink, or was written by a newer release."""
    try:
        found = json.loads(value)
        if found["format"] != FORMAT:
            raise StateUnreadable(
                f"sink {sink_id} was written by a newer release: its state has format"
                f" {found['format']}, and this release knows {FORMAT}"
            )
        unfinished = None
        if (commit := found.get("commit")) is not None:
            members = [
                TransactionMember(str(name), int(producer_id), int(epoch))
                for name, producer_id, epoch in commit["members"]
            ]
            unfinished = Unfinished(tuple(members), _read(commit))
        return Entry(_read(found), unfinished)
    except StateUnreadable:
        raise
    except (AttributeError, KeyError, TypeError, ValueError):
        raise StateUnreadable(
            f"the state of sink {sink_id} was not written by a sink: {value!r}"
        ) from None


def _read(found: dict[str, Any]) -> SinkState:
    query_id, end = found["queryId"], found.get("sourceEnd")
    return SinkState(
        None if query_id is None else str(query_id),
        int(found["gen"]),
        int(found["nextBatch"]),
        int(found["rows"]),
        None if end is None else json.dumps(end, separators=(",", ":")),
        is_planner_known=not found.get("plannerUnknown"),
    )
