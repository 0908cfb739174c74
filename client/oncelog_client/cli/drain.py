"""`oncelog cluster drain`: takes a broker out of use."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from oncelog_client.cli.cluster_state import (
    ClusterState,
    cluster_state,
    sees_all_topics,
    sizes_of_partitions,
)
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.move_options import (
    check_options,
    move_options,
    show_and_carry_out,
    show_cancelled,
)
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import note
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.reassigning import POLL_S, SETTLE_MS, Plan
from oncelog_client.cli.some_names import some
from oncelog_client.core.draining import drain_leaders, drain_replicas
from oncelog_client.core.replica_layout import ReplicaLayout
from oncelog_client.io.clock import monotonic_ms
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from oncelog_client.admin import Admin


@click.command(
    cls=Tool,
    examples=[
        "cluster drain 3",
        "cluster drain 3 --execute --throttle 50000000",
        "cluster drain 3 --leaders-only --execute",
    ],
)
@click.argument("broker_id", metavar="ID", type=int)
@click.option("--leaders-only", is_flag=True, help="Keep the replicas, and move the leaders.")
@move_options("Cancel the moves in progress that take replicas from the broker.")
@connection_options
@output_option
def drain(
    *,
    broker_id: int,
    leaders_only: bool,
    execute: bool,
    throttle: int | None,
    cancel: bool,
    output: str,
    **_: object,
) -> None:
    """Move all replicas of a broker to the other brokers, so that it can be removed.

    Without --execute, only the plan is shown. The moves survive an interruption of this command:
    repeat it to wait for them.
    """
    check_options(execute=execute, cancelled=cancel, throttle=throttle)
    if leaders_only and (cancel or throttle is not None):
        raise click.UsageError(
            "--leaders-only moves no replica: it excludes --cancel and --throttle"
        )

    async def call(admin: Admin) -> None:
        state = await cluster_state(admin)
        known = state.racks.keys() | state.replica_brokers
        if broker_id not in known:
            names = ", ".join(map(str, sorted(known)))
            raise Failed(f"there is no broker {broker_id}, only {names}")
        if cancel:
            await show_cancelled(admin, leaving(state, broker_id), output)
            return
        sizes = await sizes_of_partitions(admin, state.alive)
        if leaders_only:
            plan, left = leaders_plan(state, broker_id)
        else:
            plan, left = replicas_plan(state, broker_id, sizes)
        await show_and_carry_out(
            admin, plan, state, sizes, execute=execute, throttle=throttle, output=output
        )
        if not (execute or plan.is_empty):
            if left:
                note(_left_text(broker_id, left, leaders_only=leaders_only, is_plan=True))
            return
        if left:
            raise Failed(_left_text(broker_id, left, leaders_only=leaders_only))
        if not leaders_only:
            await _check_empty(admin, broker_id)
        sees_all = leaders_only or await sees_all_topics(admin)
        note(_done_text(broker_id, state, leaders_only=leaders_only, sees_all=sees_all))

    ask(call)


def leaving(state: ClusterState, broker: int) -> list[TopicPartition]:
    """Return the partitions with a move in progress that takes them from the broker."""
    return [place for place, move in state.moving.items() if broker in move.removing_replicas]


def replicas_plan(
    state: ClusterState, broker: int, sizes: dict[TopicPartition, int]
) -> tuple[Plan, list[TopicPartition]]:
    """Return the plan, and the partitions that stay because they have no leader. Raises Failed if a
    partition has no other place."""
    planned = state.planned_replicas()
    # Partitions without a leader cannot be copied, so their moves would not end.
    in_progress = dict.fromkeys(leaving(state, broker))
    lost = {
        place
        for place, info in state.partitions.items()
        if info.leader is None and (broker in planned[place] or place in in_progress)
    }
    layout = ReplicaLayout(
        {place: replicas for place, replicas in planned.items() if place not in lost},
        state.racks,
        state.alive.keys() - {broker},
        sizes,
    )
    obstacles = drain_replicas(layout, broker)
    if obstacles.stuck:
        others = count_text(len(layout.targets), "other live broker")
        reason = (
            f"each of the {others} has a replica already"
            if layout.targets
            else "no other broker is alive"
        )
        raise Failed(
            f"broker {broker} cannot be drained: {count_text(len(obstacles.stuck), 'partition')}"
            f" would have no place, because {reason}: {_names(obstacles.stuck)}. Start another"
            " broker, or give these topics fewer replicas"
        )
    if obstacles.fewer_racks:
        note(
            f"{count_text(len(obstacles.fewer_racks), 'partition')} will be in fewer racks, because"
            f" no other broker of the rack is alive: {_names(obstacles.fewer_racks)}"
        )
    resume = f"oncelog cluster drain {broker}"
    awaited = [place for place in in_progress if place not in lost]
    return Plan(layout.moves(), awaited, {}, resume), sorted(lost)


def leaders_plan(state: ClusterState, broker: int) -> tuple[Plan, list[TopicPartition]]:
    """Return the plan, and the partitions without another replica in sync."""
    layout = ReplicaLayout(state.planned_replicas(), state.racks, state.alive.keys() - {broker})
    obstacles, to_elect = drain_leaders(
        layout,
        broker,
        {place: info.leader for place, info in state.partitions.items()},
        {place: info.in_sync_replicas for place, info in state.partitions.items()},
    )
    elected = {place: layout.new[place][0] for place in to_elect}
    resume = f"oncelog cluster drain {broker} --leaders-only"
    return Plan(layout.moves(), (), elected, resume), list(obstacles.stuck)


async def _check_empty(admin: Admin, broker: int) -> None:
    """Raise Failed if the broker has got replicas of new topics meanwhile, or if its disk still has
    replicas. The disk also shows replicas of topics that the user may not describe."""
    state = await cluster_state(admin)
    new = [place for place, replicas in state.planned_replicas().items() if broker in replicas]
    if new:
        raise Failed(
            f"broker {broker} has got {count_text(len(new), 'partition')} meanwhile: {_names(new)}."
            " Repeat this command"
        )
    if broker not in state.alive:
        return
    # A broker learns of the end of a move, and closes its replica, later than the controller.
    ends_ms = monotonic_ms() + SETTLE_MS
    while on_disk := await _on_disk(admin, broker):
        if monotonic_ms() > ends_ms:
            raise Failed(
                f"broker {broker} still has {count_text(len(on_disk), 'partition')} on its disk:"
                f" {_names(on_disk)}. If they are of topics that this user may not describe, repeat"
                " this command as a user that may"
            )
        await asyncio.sleep(POLL_S)


async def _on_disk(admin: Admin, broker: int) -> set[TopicPartition]:
    """Return the partitions on the disk of a broker. Raises KafkaError."""
    directories = (await admin.describe_log_dirs([broker]))[broker]
    return {place for directory in directories for place in directory.replicas}


def _left_text(
    broker: int, left: list[TopicPartition], *, leaders_only: bool, is_plan: bool = False
) -> str:
    """Return the sentence about partitions that cannot be moved, or that a plan does not move."""
    count = count_text(len(left), "partition")
    if leaders_only:
        leads = "would still lead" if is_plan else "still leads"
        return (
            f"broker {broker} {leads} {count}, because no other replica is in sync: {_names(left)}"
        )
    has = "would still have" if is_plan else "still has"
    return (
        f"broker {broker} {has} {count}, because no live broker has all their records:"
        f" {_names(left)}. Start the broker that has them (`oncelog cluster doctor` names it), and"
        " repeat this command"
    )


def _done_text(broker: int, state: ClusterState, *, leaders_only: bool, sees_all: bool) -> str:
    """Return the sentence about what can be done with a drained broker."""
    if leaders_only:
        return (
            f"broker {broker} leads no partition; `oncelog cluster rebalance` gives it some again"
        )
    unregister = f"oncelog cluster unregister {broker}"
    if broker in state.alive:
        return (
            f"broker {broker} has no replica. It is safe to stop it, and then to unregister it:"
            f" {unregister}. Until it stops, new topics may be placed on it"
        )
    if not sees_all:
        return f"broker {broker} has no replica of a topic that this user may describe"
    if broker in state.fenced:
        return f"broker {broker} has no replica. It is safe to unregister it: {unregister}"
    return f"broker {broker} has no replica"


def _names(places: Iterable[TopicPartition]) -> str:
    return some([str(place) for place in sorted(places)]) or ""
