"""Carries out a plan of moves, shows its progress, and waits for its end."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from oncelog_client.cli.cluster_state import ClusterState, partitions_of
from oncelog_client.cli.failures import Failed, Interrupted
from oncelog_client.cli.interrupts import Stop
from oncelog_client.cli.output import Column, note
from oncelog_client.cli.progress import Progress
from oncelog_client.cli.quantities import count_text, size_text
from oncelog_client.cli.some_names import some
from oncelog_client.cli.throttling import remove_throttle, set_throttle
from oncelog_client.core.replica_layout import Move
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.values import PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.admin import Admin

COLUMNS: Final = (
    Column("Topic", "id"),
    Column("Partition", "count"),
    Column("Replicas"),
    Column("New replicas"),
    Column("Leader", "count", rank=2),
    Column("New leader", "count", rank=2),
    Column("Copied to", rank=1),
    Column("Size", "size", rank=3),
)
# Number of partitions in one request.
AT_ONCE: Final = 500
POLL_S: Final = 0.3
# Time between two lines about the progress, if standard error is no terminal.
REPORT_MS: Final = 30_000
# Longest wait until every broker sees the moves, and again until the new leaders are elected.
SETTLE_MS: Final = 20_000


class Plan(NamedTuple):
    """Moves to make, moves in progress to wait for, and partitions that need an election of the
    preferred leader. `resume` is the command line that waits for the moves after an
    interruption."""

    moves: Sequence[Move]
    in_progress: Collection[TopicPartition]
    to_elect: Mapping[TopicPartition, int]
    resume: str

    @property
    def is_empty(self) -> bool:
        return not (self.moves or self.in_progress or self.to_elect)


PlanRow = tuple[str, int, list[int], list[int], int | None, int | None, list[int], int | None]


def plan_rows(
    plan: Plan, state: ClusterState, sizes: Mapping[TopicPartition, int]
) -> list[PlanRow]:
    """Return the rows of COLUMNS: the moves, then the elections of other partitions."""
    rows: list[PlanRow] = []
    for move in plan.moves:
        leader = state.partitions[move.place].leader
        new_leader = move.new[0] if move.new[0] in state.alive else None
        row = list(move.old), list(move.new), leader, new_leader, list(move.added)
        rows.append((*move.place, *row, sizes.get(move.place)))
    for place in sorted(plan.to_elect.keys() - {move.place for move in plan.moves}):
        info = state.partitions[place]
        same = list(info.replicas)
        rows.append((*place, same, same, info.leader, plan.to_elect[place], [], sizes.get(place)))
    return rows


def summary(plan: Plan, state: ClusterState, sizes: Mapping[TopicPartition, int]) -> str:
    """Return the sentence below a plan."""
    copies = sum(len(move.added) for move in plan.moves)
    copied = sum(len(move.added) * sizes.get(move.place, 0) for move in plan.moves)
    leaders = {
        move.place
        for move in plan.moves
        if move.new[0] in state.alive and state.partitions[move.place].leader != move.new[0]
    }
    parts = [f"{count_text(copies, 'replica')} to copy ({size_text(copied)})"] if copies else []
    if moved := leaders | plan.to_elect.keys():
        parts.append(f"{count_text(len(moved), 'leader')} to move")
    if plan.in_progress:
        parts.append(f"{count_text(len(plan.in_progress), 'move')} in progress")
    return ", ".join(parts) or "nothing to move"


async def carry_out(admin: Admin, plan: Plan, state: ClusterState, throttle: int | None) -> None:
    """Make the moves and wait until they are complete. Then remove their throttle, and elect the
    preferred leaders that are alive.

    Raises Failed if a move has been cancelled meanwhile, and Interrupted after a signal: the moves
    then continue.
    """
    stop = Stop()
    with stop.listening():
        stop.words = lambda: (
            f"interrupted; moves that have begun continue. To wait for them: {plan.resume}"
            " --execute; to cancel them: --cancel"
        )
        throttled = _to_throttle(plan, state)
        if throttle is not None:
            await set_throttle(admin, throttled, throttle, state.alive)
        for start in range(0, len(plan.moves), AT_ONCE):
            part = plan.moves[start : start + AT_ONCE]
            # If a partition's number of replicas has changed since the plan was made, the broker
            # refuses the move.
            await admin.alter_partition_reassignments(
                {move.place: move.new for move in part}, allow_replication_factor_change=False
            )
        places = {move.place for move in plan.moves} | set(plan.in_progress)
        await _all_moved(admin, places, stop)
        has_rates = throttle is not None and any(move.added for move in throttled)
        await remove_leftovers(admin, has_rates=has_rates)
        await _check(admin, plan.moves, stop)
        elected = {move.place: move.new[0] for move in plan.moves} | dict(plan.to_elect)
        alive = await _alive(admin)
        await _elect(
            admin, {place: broker for place, broker in elected.items() if broker in alive}, stop
        )


def _to_throttle(plan: Plan, state: ClusterState) -> list[Move]:
    """Return the moves of the plan, and moves that have begun: those of an interrupted command, and
    others of the same topics, because the list of a topic's throttled replicas is written as a
    whole (as kafka-reassign-partitions --execute does)."""
    planned = {move.place for move in plan.moves}
    topics = {place.topic for place in planned}
    begun = [
        move
        for move in state.moves_in_progress()
        if move.place not in planned
        and (move.place in plan.in_progress or move.place.topic in topics)
    ]
    return [*plan.moves, *begun]


async def cancel(admin: Admin, places: Collection[TopicPartition]) -> bool:
    """Cancel the moves of these partitions, and remove their throttle. Return False if at least one
    of the moves had ended already. Raises KafkaError."""
    chosen = sorted(places)
    are_all = True
    for start in range(0, len(chosen), AT_ONCE):
        are_all &= await _cancel_part(admin, chosen[start : start + AT_ONCE])
    if chosen:
        await remove_leftovers(admin)
    return are_all


async def _cancel_part(admin: Admin, places: Sequence[TopicPartition]) -> bool:
    """Cancel the moves of these partitions. Return False if a move had ended already. Raises
    KafkaError."""
    left = list(places)
    are_all = True
    while left:
        try:
            await admin.alter_partition_reassignments(dict.fromkeys(left))
        except KafkaError as error:
            if error.code is not ErrorCode.NO_REASSIGNMENT_IN_PROGRESS:
                raise
            # The error names one partition, and may hide the error of another one.
            moving = await admin.list_partition_reassignments()
            still = [place for place in left if place in moving]
            if len(still) == len(left):
                raise
            left = still
            are_all = False
        else:
            break
    return are_all


async def remove_leftovers(admin: Admin, *, has_rates: bool = False) -> None:
    """Remove the throttle of moves, unless a partition still moves (as kafka-reassign-partitions
    --verify does). An interrupted run may have left a throttle behind on any topic. `has_rates` has
    the same meaning as in `remove_throttle`."""
    if await admin.list_partition_reassignments():
        note("other moves are in progress, so the throttle stays")
        return
    topics = await admin.list_topics(list_internal=True)
    # The live brokers are looked up again, because the call would fail for a broker that has
    # stopped since the plan was made.
    if await remove_throttle(admin, topics, await _alive(admin), has_rates=has_rates):
        note("the throttle is removed")


async def _alive(admin: Admin) -> set[int]:
    return {node.node_id for node in (await admin.describe_cluster()).nodes}


async def _all_moved(admin: Admin, places: Collection[TopicPartition], stop: Stop) -> None:
    """Return when none of the partitions moves any more."""
    reported_ms = monotonic_ms()
    # The request names no partitions, and so lists all moves: with the names it could exceed the
    # limit of a request.
    with Progress(f"of {count_text(len(places), 'partition')} moved", None, len(places)) as shown:
        while left := (await admin.list_partition_reassignments()).keys() & set(places):
            shown.advance(len(places) - len(left))
            if not shown.is_drawn and monotonic_ms() - reported_ms > REPORT_MS:
                reported_ms = monotonic_ms()
                note(f"{len(left)} of {count_text(len(places), 'partition')} left: {_names(left)}")
            await _pause(stop)


async def _check(admin: Admin, moves: Iterable[Move], stop: Stop) -> None:
    """Raise Failed if a partition does not have the replicas of its move. The responding broker may
    see the moves a little later than the controller."""
    wanted = {move.place: move.new for move in moves}
    ends_ms = monotonic_ms() + SETTLE_MS
    while True:
        found = await _present(admin, wanted)
        other = [place for place, info in found.items() if info.replicas != wanted[place]]
        if not other:
            return
        if monotonic_ms() > ends_ms:
            raise Failed(
                f"{count_text(len(other), 'partition')} did not move, because another request has"
                f" cancelled or replaced the move: {_names(other)}"
            )
        await _pause(stop)


async def _elect(admin: Admin, wanted: Mapping[TopicPartition, int], stop: Stop) -> None:
    """Elect these leaders. Raises Failed for partitions that another broker still leads, when no
    leader has been elected for SETTLE_MS: the controller elects many leaders in several steps."""
    from oncelog_client.admin import ElectionType

    fewest, ends_ms = len(wanted) + 1, 0.0
    requests: Counter[TopicPartition] = Counter()
    errors: dict[TopicPartition, KafkaError | None] = {}
    while left := await _with_other_leaders(admin, wanted):
        if len(left) < fewest:
            fewest, ends_ms = len(left), monotonic_ms() + SETTLE_MS
        elif monotonic_ms() > ends_ms:
            raise Failed(
                f"{count_text(len(left), 'partition')} kept another leader"
                f"{_reason(errors.get(place) for place in left)}: {_names(left)}. The controller"
                " elects the preferred one later"
            )
        # Partitions that cannot be elected must not keep the others from a request.
        part = sorted(left, key=requests.__getitem__)[:AT_ONCE]
        requests.update(part)
        errors |= await admin.elect_leaders(ElectionType.PREFERRED, part)
        await _pause(stop)


def _reason(errors: Iterable[KafkaError | None]) -> str:
    """Return the most frequent reason for which a broker refused to elect a leader."""
    codes = Counter(error.code for error in errors if error is not None)
    if not codes:
        return ""
    ((code, _),) = codes.most_common(1)
    if code is ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE:
        return ", because the preferred one is not in sync"
    return f" ({code.name})"


async def _with_other_leaders(
    admin: Admin, wanted: Mapping[TopicPartition, int]
) -> list[TopicPartition]:
    found = await _present(admin, wanted)
    return [place for place, info in found.items() if info.leader != wanted[place]]


async def _present(
    admin: Admin, places: Collection[TopicPartition]
) -> dict[TopicPartition, PartitionInfo]:
    """Return the partitions of `places` that still exist."""
    found = await partitions_of(admin, {place.topic for place in places})
    return {place: found[place] for place in places if place in found}


async def _pause(stop: Stop) -> None:
    """Wait for the next look. Raises Interrupted after a signal."""
    try:
        async with asyncio.timeout(POLL_S):
            await stop.event.wait()
    except TimeoutError:
        return
    raise Interrupted(stop.words())


def _names(places: Iterable[TopicPartition]) -> str:
    return some([str(place) for place in sorted(places)]) or ""
