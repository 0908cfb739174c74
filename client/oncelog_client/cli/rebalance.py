"""`oncelog cluster rebalance`: spreads replicas and leaders over the brokers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from oncelog_client.cli.cluster_state import ClusterState, cluster_state, sizes_of_partitions
from oncelog_client.cli.commands import Tool
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.move_options import (
    check_options,
    move_options,
    show_and_carry_out,
    show_cancelled,
)
from oncelog_client.cli.options import connection_options, output_option
from oncelog_client.cli.output import note
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.reassigning import Plan
from oncelog_client.cli.some_names import some
from oncelog_client.core.rebalancing import is_balanced
from oncelog_client.core.rebalancing import rebalance as balance
from oncelog_client.core.replica_layout import ReplicaLayout
from oncelog_client.values import PartitionInfo, TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin


@click.command(
    cls=Tool,
    examples=["cluster rebalance", "cluster rebalance --execute --throttle 50000000"],
)
@move_options("Cancel all moves in progress, of all partitions.")
@connection_options
@output_option
def rebalance(
    *, execute: bool, throttle: int | None, cancel: bool, output: str, **_: object
) -> None:
    """Spread replicas and leaders evenly over the live brokers, with the fewest copies.

    A new broker gets its share. No partition is in fewer racks than before. Without --execute, only
    the plan is shown.
    """
    check_options(execute=execute, cancelled=cancel, throttle=throttle)

    async def call(admin: Admin) -> None:
        state = await cluster_state(admin)
        if cancel:
            await show_cancelled(admin, state.moving, output)
            return
        sizes = await sizes_of_partitions(admin, state.alive)
        plan, is_even = balanced_plan(state, sizes)
        if state.fenced:
            note(state.stopped_text())
        if offline := without_leader(state):
            names = some([str(place) for place in offline])
            note(f"{count_text(len(offline), 'partition')} without a leader cannot move: {names}")
        await show_and_carry_out(
            admin, plan, state, sizes, execute=execute, throttle=throttle, output=output
        )
        if execute or plan.is_empty:
            note(
                "replicas and leaders are balanced"
                if is_even
                else "replicas and leaders are as balanced as the racks of the brokers allow"
            )

    ask(call)


def balanced_plan(state: ClusterState, sizes: dict[TopicPartition, int]) -> tuple[Plan, bool]:
    """Return the plan, and True if it makes the cluster even. The plan elects the preferred leader
    of a partition that does not move and has another leader. Partitions without a leader are left
    out, because nothing can copy their records: their moves would not end."""
    offline = set(without_leader(state))
    planned = {
        place: replicas
        for place, replicas in state.planned_replicas().items()
        if place not in offline
    }
    layout = ReplicaLayout(planned, state.racks, state.alive, sizes)
    balance(layout)
    moves = layout.moves()
    moved = {move.place for move in moves} | state.moving.keys()
    to_elect = {
        place: info.replicas[0]
        for place, info in state.partitions.items()
        if place not in moved and _is_led_by_another(info)
    }
    in_progress = [place for place in state.moving if place not in offline]
    plan = Plan(moves, in_progress, to_elect, "oncelog cluster rebalance")
    return plan, is_balanced(layout)


def without_leader(state: ClusterState) -> list[TopicPartition]:
    """Return the partitions without a leader, in order."""
    return sorted(place for place, info in state.partitions.items() if info.leader is None)


def _is_led_by_another(info: PartitionInfo) -> bool:
    """Return True if the preferred leader is in sync, and another broker leads."""
    preferred = info.replicas[0]
    return info.leader not in (None, preferred) and preferred in info.in_sync_replicas
