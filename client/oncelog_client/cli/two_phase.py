"""What verbs ask before they abort through a coordinator: whether it is for an operator to decide
(KIP-939)."""

from __future__ import annotations

from typing import Final

import click

from oncelog_client.admin import TransactionDescription

OPEN: Final = "Ongoing"
EVEN_TWO_PHASE: Final = "a two-phase transaction; its other parts may be committed already."


def refuse_two_phase(known: TransactionDescription) -> None:
    """Raises click.ClickException where it waits for the decision of a two-phase commit."""
    if known.is_two_phase and known.state == OPEN:
        raise click.ClickException(
            f"{known.transactional_id} takes part in a two-phase commit: once its application"
            " has decided to commit, an abort tears the whole. Ask there first (`oncelog"
            " transactions prepared` has the state to look for); --even-two-phase aborts it all"
            " the same"
        )
