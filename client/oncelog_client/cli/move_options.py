"""The options of the commands that move partitions, and the steps that these commands share."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from oncelog_client.cli.names import INT64_MAX
from oncelog_client.cli.output import for_people, note, show
from oncelog_client.cli.quantities import count_text
from oncelog_client.cli.reassigning import (
    COLUMNS,
    Plan,
    cancel,
    carry_out,
    plan_rows,
    remove_leftovers,
    summary,
)
from oncelog_client.values import TopicPartition

if TYPE_CHECKING:
    from oncelog_client.admin import Admin
    from oncelog_client.cli.cluster_state import ClusterState

F = TypeVar("F", bound=Callable[..., Any])

CANCEL_COLUMNS: Final = COLUMNS[:2]


def move_options(cancels: str) -> Callable[[F], F]:
    """Return a decorator that adds `--execute`, `--throttle` and `--cancel`. `cancels` is the help
    of `--cancel`, which names the moves."""

    def add(command: F) -> F:
        command = click.option("--cancel", is_flag=True, help=cancels)(command)
        command = click.option(
            "--throttle",
            type=click.IntRange(1, INT64_MAX),
            metavar="BYTES",
            help="The most bytes per second to copy to and from each broker.",
        )(command)
        return click.option(
            "--execute",
            is_flag=True,
            help="Make the moves and wait for them. Without it, nothing is changed.",
        )(command)

    return add


def check_options(*, execute: bool, cancelled: bool, throttle: int | None) -> None:
    """Raise click.UsageError for options that exclude each other."""
    if cancelled and (execute or throttle is not None):
        raise click.UsageError("--cancel excludes --execute and --throttle")
    if throttle is not None and not execute:
        raise click.UsageError("--throttle needs --execute")


async def show_and_carry_out(
    admin: Admin,
    plan: Plan,
    state: ClusterState,
    sizes: Mapping[TopicPartition, int],
    *,
    execute: bool,
    throttle: int | None,
    output: str,
) -> None:
    """Show the plan. With `execute`, carry it out."""
    if not plan.is_empty or not for_people(output):
        show(COLUMNS, plan_rows(plan, state, sizes), output=output, empty="no further moves")
    if for_people(output) and not plan.is_empty:
        note(summary(plan, state, sizes))
        if not execute:
            note("nothing was changed: this is what --execute would do")
    if execute and plan.is_empty:
        await remove_leftovers(admin)
    elif execute:
        await carry_out(admin, plan, state, throttle)


async def show_cancelled(admin: Admin, places: Collection[TopicPartition], output: str) -> None:
    """Cancel the moves of these partitions, and show the partitions."""
    are_all = await cancel(admin, places)
    show(CANCEL_COLUMNS, sorted(places), output=output, empty="no move is in progress")
    if places and for_people(output):
        rest = (
            "; each partition keeps its replicas"
            if are_all
            else ", except those that had ended already"
        )
        note(f"{count_text(len(places), 'move')} cancelled{rest}")
