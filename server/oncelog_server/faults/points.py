"""The table of fail points, at which a test can make a broker die.

A fail point is a moment of a step, such as `before-prepare`, `torn-prepare`, `after-prepare` or
`synced-prepare`, or the moment before a response, such as `answer-end-txn`. `cell` is its name in
the crash matrix (docs/scenarios.md).
"""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

from oncelog_protocol.apis import ApiKey


class WriteMoment(Enum):
    """A moment around one write to a log.

    TORN: half of its bytes are in the file. SYNCED: an fsync has covered it, but its callback has
    not run yet.
    """

    BEFORE = "before"
    TORN = "torn"
    AFTER = "after"
    SYNCED = "synced"


class Step(Enum):
    """The meaning of one batch in a log."""

    INITIALISE = "initialise"
    ADD_PARTITIONS = "add-partitions"
    PREPARE = "prepare"
    COMPLETE = "complete"
    DATA = "data"
    MARKER = "marker"
    TXN_OFFSETS = "txn-offsets"
    OFFSETS_MARKER = "offsets-marker"
    OFFSETS = "offsets"
    GROUP = "group"


class FailPoint(NamedTuple):
    """A fail point. `cell` is one or more of C0 to C14, or "" if the crash matrix has no name for
    it."""

    name: str
    cell: str
    meaning: str


ANSWERS: Final[dict[ApiKey, str]] = {
    ApiKey.INIT_PRODUCER_ID: "answer-init-producer-id",
    ApiKey.ADD_PARTITIONS_TO_TXN: "answer-add-partitions",
    ApiKey.ADD_OFFSETS_TO_TXN: "answer-add-offsets",
    ApiKey.PRODUCE: "answer-produce",
    ApiKey.TXN_OFFSET_COMMIT: "answer-txn-offset-commit",
    ApiKey.END_TXN: "answer-end-txn",
    ApiKey.OFFSET_COMMIT: "answer-offset-commit",
    ApiKey.JOIN_GROUP: "answer-join-group",
    ApiKey.SYNC_GROUP: "answer-sync-group",
}

_MEANINGS: Final[dict[Step, str]] = {
    Step.INITIALISE: "a transactional id gets its producer id or a new epoch",
    Step.ADD_PARTITIONS: "partitions are added to a transaction",
    Step.PREPARE: "a transaction is decided",
    Step.COMPLETE: "a transaction is finished: all its markers are written",
    Step.DATA: "a client's batch",
    Step.MARKER: "a marker of any partition; with the suffix :2, the second marker since the start",
    Step.TXN_OFFSETS: "a group's offsets in a transaction",
    Step.OFFSETS_MARKER: "the marker of the group's partition",
    Step.OFFSETS: "a group's offsets without a transaction",
    Step.GROUP: "a group's members after a rebalance",
}

_CELLS: Final[dict[str, str]] = {
    "before-add-partitions": "C0",
    "torn-add-partitions": "C0",
    "after-add-partitions": "C1",
    "synced-add-partitions": "C2",
    "answer-add-partitions": "C2",
    "answer-add-offsets": "C2",
    "before-data": "C3",
    "torn-data": "C3",
    "after-data": "C4",
    "synced-data": "C4",
    "answer-produce": "C4",
    "before-prepare": "C5",
    "torn-prepare": "C5",
    "after-prepare": "C6",
    "synced-prepare": "C7",
    "synced-marker": "C9, C10, C11",
    "before-marker": "C8",
    "torn-marker": "C8, C9, C10",
    "after-marker": "C9, C10, C11",
    "before-complete": "C12",
    "torn-complete": "C12",
    "after-complete": "C13",
    "synced-complete": "C14",
    "answer-end-txn": "C14",
}


def point_name(moment: WriteMoment, step: Step) -> str:
    return f"{moment.value}-{step.value}"


def _table() -> dict[str, FailPoint]:
    rows = [
        (point_name(moment, step), f"{moment.value}: {_MEANINGS[step]}")
        for step in Step
        for moment in WriteMoment
    ]
    rows += [(name, f"before the response to {key.name} leaves") for key, name in ANSWERS.items()]
    return {name: FailPoint(name, _CELLS.get(name, ""), meaning) for name, meaning in rows}


FAIL_POINTS: Final[dict[str, FailPoint]] = _table()
