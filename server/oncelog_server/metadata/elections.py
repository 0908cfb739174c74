"""Makes the elections that an operator requests (ElectLeaders)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Sequence
from typing import Final

import structlog

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.partition_change import ElectionRules
from oncelog_server.cluster.requested_elections import (
    ElectionType,
    Outcome,
    requested_elections,
)
from oncelog_server.cluster.store import Write
from oncelog_server.metadata.conditional_writer import ConditionalWriter
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition

# Number of partitions that are examined in one turn of the loop.
EXAMINED_AT_ONCE: Final = 1_000
# Number of leaders that are elected together, and the pause after them. A broker then loads only a
# few coordinators at the same time.
ELECTED_AT_ONCE: Final = 100
PAUSE_S: Final = 0.25

# Number of partitions that the log names.
NAMED: Final = 5

_log = structlog.get_logger("oncelog.cluster")

Outcomes = dict[TopicPartition, Outcome]


async def elect_leaders(
    writer: ConditionalWriter,
    image: Callable[[], ClusterImage],
    rules: ElectionRules,
    kind: ElectionType,
    wanted: Sequence[TopicPartition],
    unserved: Collection[TopicPartition],
) -> Outcomes:
    """Elect the leaders of these partitions, some at a time. Return the outcome for each. If the
    store fails, its error is the outcome of the elections that were left."""
    outcomes: Outcomes = {}
    try:
        await writer.catch_up()
    except Refused as refused:
        return dict.fromkeys(wanted, refused)
    for start in range(0, len(wanted), EXAMINED_AT_ONCE):
        part = wanted[start : start + EXAMINED_AT_ONCE]
        outcomes |= requested_elections(image(), rules, kind, part, unserved=unserved).outcomes
        await asyncio.sleep(0)
    possible = [name for name, outcome in outcomes.items() if outcome is None]
    for start in range(0, len(possible), ELECTED_AT_ONCE):
        if start:
            await asyncio.sleep(PAUSE_S)
        part = possible[start : start + ELECTED_AT_ONCE]
        try:
            outcomes |= await _elect(writer, rules, kind, part)
        except Refused as refused:
            return outcomes | dict.fromkeys(possible[start:], refused)
    return outcomes


async def _elect(
    writer: ConditionalWriter,
    rules: ElectionRules,
    kind: ElectionType,
    part: Sequence[TopicPartition],
) -> Outcomes:
    """Elect these leaders. Raises Refused if the store fails."""
    outcomes: Outcomes = {}
    # An earlier attempt may have elected leaders although it seemed to fail, so its names count
    # too.
    unclean: dict[TopicPartition, None] = {}

    def decide(image: ClusterImage) -> list[Write]:
        elections = requested_elections(image, rules, kind, part)
        outcomes.update(elections.outcomes)
        unclean.update(dict.fromkeys(elections.unclean))
        return elections.writes

    await writer.write(decide)
    _log_unclean(tuple(unclean))
    return {name: _after_a_decision(outcome) for name, outcome in outcomes.items()}


def _log_unclean(elected: Sequence[TopicPartition]) -> None:
    if elected:
        _log.warning(
            "unclean leaders elected on request: acknowledged records may be lost",
            partitions=len(elected),
            some=[str(name) for name in elected[:NAMED]],
        )


def _after_a_decision(outcome: Outcome) -> Outcome:
    """Return the outcome of an election that was possible at first. An election that is not needed
    any more has succeeded: an earlier attempt or another broker has made it."""
    if outcome is not None and outcome.code is ErrorCode.ELECTION_NOT_NEEDED:
        return None
    return outcome
