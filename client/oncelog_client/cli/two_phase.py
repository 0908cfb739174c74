"""Two-phase commits (KIP-939). A command aborts a transaction of a two-phase commit only with
`--include-two-phase`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from oncelog_client.admin import TransactionDescription
from oncelog_client.cli.options import former_name

F = TypeVar("F", bound=Callable[..., Any])

OPEN: Final = "Ongoing"
_HELP: Final = "a transaction of a two-phase commit; the other participants may have committed."


def include_two_phase_option(lead: str = "Also") -> Callable[[F], F]:
    """Add `--include-two-phase`. The help of the option begins with `lead`."""

    def add(command: F) -> F:
        former = former_name("--even-two-phase", "include_two_phase", is_flag=True)
        return click.option("--include-two-phase", is_flag=True, help=f"{lead} {_HELP}")(
            former(command)
        )

    return add


def refuse_two_phase(known: TransactionDescription) -> None:
    """Raise click.ClickException for an open transaction that is part of a two-phase commit."""
    if known.is_two_phase and known.state == OPEN:
        raise click.ClickException(
            f"{known.transactional_id} takes part in a two-phase commit: once its application"
            " has decided to commit, an abort loses this part of the commit. Ask its operators"
            " first: the database of an application that has decided to commit contains the state"
            " that `oncelog transactions prepared` prints. --include-two-phase aborts the"
            " transaction nevertheless"
        )
