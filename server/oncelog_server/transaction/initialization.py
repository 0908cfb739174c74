"""Checks an InitProducerId before the transaction coordinator decides. The checks are the
generation of the consumer group (KIP-447, early draft) and the quota of new producer ids."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred, then, then_ask
from oncelog_server.group.coordinator import GroupCoordinator
from oncelog_server.refusal import Refused
from oncelog_server.transaction.caller import ClientRequest, quota_client
from oncelog_server.transaction.commands.init_producer_id import InitProducerId
from oncelog_server.transaction.coordinator import TransactionCoordinator
from oncelog_server.transaction.grouped.dismissals import reason_of
from oncelog_server.transaction.groups import GroupAssignment
from oncelog_server.transaction.producer_id_quota import ProducerIdQuota
from oncelog_server.transaction.producer_ids import ProducerIds
from oncelog_server.transaction.results import TransactionResult

if TYPE_CHECKING:
    from oncelog_server.transaction.fences import Reason
    from oncelog_server.transaction.remote.other_coordinators import (
        GroupGeneration,
        OtherCoordinators,
    )

Answer = TransactionResult | Deferred[TransactionResult]


class Initialization:
    """One InitProducerId with a transactional id. `membership` is the producer's membership in a
    consumer group, None without one. `others`: the coordinators of other brokers, None with a
    single broker."""

    def __init__(
        self,
        transactions: TransactionCoordinator,
        groups: GroupCoordinator,
        quota: ProducerIdQuota,
        producer_ids: ProducerIds,
        monotonic_ms: Callable[[], int],
        caller: ClientRequest,
        command: InitProducerId,
        membership: GroupAssignment | None,
        others: OtherCoordinators | None = None,
    ) -> None:
        self._transactions = transactions
        self._groups = groups
        self._quota = quota
        self._producer_ids = producer_ids
        self._monotonic_ms = monotonic_ms
        self._caller = caller
        self._command = command
        self._membership = membership
        self._others = others

    def run(self) -> Answer:
        """Check and decide the request, after a wait if the principal has no block of producer
        ids. Raises Refused if the group has another generation, if the quota of new ids is spent,
        or if the coordinator refuses."""
        # The checks are repeated after the wait, because group and quota may have changed.
        return self._producer_ids.when_available(self._command.principal, self._decide)

    def _decide(self) -> Answer:
        if self._membership is None:
            return self._init_checked(is_current=False)
        if self._others is not None:
            return then_ask(self._others.generation(self._membership), self._decide_later)
        return self._init_checked(is_current=self._is_current(self._membership))

    def _decide_later(self, found: GroupGeneration) -> Answer:
        """Decide after the response of the group's coordinator. While that coordinator is
        unavailable, the caller has to retry: without a response, a group with a newer generation
        would seem to have no members."""
        membership = self._membership
        assert membership is not None
        try:
            if found.code is not ErrorCode.NONE:
                return TransactionResult(found.code)
            if found.generation_id not in (None, membership.generation_id):
                raise self._outdated(found.reason)
            return self._producer_ids.when_available(
                self._command.principal,
                lambda: self._init_checked(is_current=found.generation_id is not None),
            )
        except Refused as refused:
            return TransactionResult(refused.code)

    def _init_checked(self, *, is_current: bool) -> Answer:
        if self._keeps_id():
            return self._init(is_current=is_current)
        return self._init_new(is_current=is_current)

    def _is_current(self, membership: GroupAssignment) -> bool:
        """Return True if the group coordinator has the group in this generation. Return False if
        the group has no members (the group of a Spark sink, for example). Raises Refused if the
        group has another generation."""
        current = self._groups.live_generation(membership.group_id)
        if current is None:
            return False
        if current != membership.generation_id:
            dismissal = self._groups.outdated(membership.group_id, membership.generation_id)
            raise self._outdated(reason_of(dismissal))
        return True

    def _outdated(self, reason: Reason) -> Refused:
        """Count the refused request, and return the error for a generation that the group refuses
        for `reason`."""
        command = self._command
        self._transactions.refused_by_group(
            command.transactional_id,
            (command.producer_id, command.producer_epoch),
            reason,
            self._caller,
        )
        return Refused(ErrorCode.ILLEGAL_GENERATION)

    def _init(self, *, is_current: bool) -> Answer:
        return self._transactions.init_producer_id(
            self._command, self._membership, is_current=is_current
        )

    def _init_new(self, *, is_current: bool) -> Answer:
        """Initialize a transactional id that is unknown, or that the caller's principal takes over
        from another principal. The quota is charged first, because many requests may be in flight
        at once. After an error the charge is taken back, because the request was refused or must be
        retried. There is one exception: if this broker does not coordinate the id any more, the
        charge stays, because the record of the id may be committed."""
        quota, client = self._quota, quota_client(self._caller)
        quota.charge(client, self._monotonic_ms())

        def settle(done: TransactionResult) -> TransactionResult:
            if done.code is not ErrorCode.NONE and self._is_coordinated():
                quota.give_back(client)
            return done

        try:
            result = self._init(is_current=is_current)
        except Refused:
            quota.give_back(client)
            raise
        return then(result, settle)

    def _keeps_id(self) -> bool:
        """Return True if the coordinator has the transactional id, with a producer id that the
        caller can use. Raises Refused."""
        group_id = None if self._membership is None else self._membership.group_id
        return self._transactions.keeps_id(self._command, group_id)

    def _is_coordinated(self) -> bool:
        """Return True if this broker coordinates the id. The id need not exist."""
        key = (
            self._command.transactional_id
            if self._membership is None
            else self._membership.group_id
        )
        try:
            self._transactions.owner(key)
        except Refused:
            return False
        return True
