"""The abort of open transactions by one id, for `oncelog transactions blocking --abort`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from oncelog_client.admin import AbortTransactionSpec, Admin
from oncelog_client.cli.failures import Failed
from oncelog_client.cli.hanging import OpenTransaction, before_an_abort, open_transactions
from oncelog_client.cli.two_phase import refuse_two_phase
from oncelog_client.errors import AuthorizationError, KafkaError
from oncelog_protocol.errors import ErrorCode

if TYPE_CHECKING:
    from oncelog_client.values import TopicPartition


async def abort_open(
    admin: Admin,
    places: Iterable[TopicPartition],
    name: str,
    *,
    is_producer_id: bool,
    include_two_phase: bool,
) -> str:
    """Abort the open transactions of a transactional id or producer id, `name`, in `places`. With
    `is_producer_id`, `name` is no transactional id. Return a text that says how they were aborted,
    or an empty text if there is none.

    Raises Failed if `name` is or may be of both kinds, or the transaction may have an id that this
    client does not see, and click.ClickException for a two-phase transaction without
    `include_two_phase`."""
    with before_an_abort():
        found = await open_transactions(admin, places)
    chosen = await _chosen(admin, found, name, is_producer_id=is_producer_id)
    if any(transaction.may_be_hidden for transaction in chosen):
        raise Failed(
            f"producer {name} may be of a transactional id that this user does not see: this needs"
            " DESCRIBE on its TRANSACTIONAL_ID. Nothing was aborted"
        )
    if not include_two_phase:
        for transaction in chosen:
            if transaction.description is not None:
                refuse_two_phase(transaction.description)
    known = {
        transaction.description.transactional_id
        for transaction in chosen
        if transaction.description is not None
    }
    for transactional_id in sorted(known):
        await admin.force_terminate_transaction(transactional_id)
    hanging = [transaction for transaction in chosen if transaction.description is None]
    for transaction in hanging:
        await admin.abort_transaction(_spec(transaction))
    return ", ".join(
        [f"by its coordinator: {transactional_id}" for transactional_id in sorted(known)]
        + [f"by a marker: {transaction.place}" for transaction in hanging]
    )


async def _chosen(
    admin: Admin, found: list[OpenTransaction], name: str, *, is_producer_id: bool
) -> list[OpenTransaction]:
    """Return the transactions of the transactional id `name`, or else of the producer id. Raises
    Failed if `name` is or may be a transactional id, and the producer id of another
    transaction."""
    of_producer = [
        transaction for transaction in found if name == str(transaction.producer.producer_id)
    ]
    if is_producer_id:
        return of_producer
    of_name = [
        transaction
        for transaction in found
        if transaction.description is not None and name == transaction.description.transactional_id
    ]
    others = [transaction for transaction in of_producer if transaction not in of_name]
    if others and (of_name or await _exists(admin, name)):
        raise Failed(
            f"{name} is a transactional id, and the producer id of a transaction in"
            f" {others[0].place}. `oncelog txn abort {name}` aborts the transaction of the"
            " transactional id, and --producer-id that of the producer id. Nothing was aborted"
        )
    return of_name or of_producer


async def _exists(admin: Admin, transactional_id: str) -> bool:
    try:
        await admin.describe_transactions([transactional_id])
    except AuthorizationError as error:
        raise Failed(
            f"this user does not see whether there is a transactional id {transactional_id}: this"
            " needs DESCRIBE on it, or --producer-id for a producer id. Nothing was aborted"
        ) from error
    except KafkaError as error:
        if error.code is not ErrorCode.TRANSACTIONAL_ID_NOT_FOUND:
            raise
        return False
    return True


def _spec(transaction: OpenTransaction) -> AbortTransactionSpec:
    producer = transaction.producer
    place: TopicPartition = transaction.place
    return AbortTransactionSpec(
        place, producer.producer_id, producer.producer_epoch, producer.coordinator_epoch or 0
    )
