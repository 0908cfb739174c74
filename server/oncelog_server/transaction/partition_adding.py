"""Adds partitions to transactions for the leaders of these partitions (KIP-890). The coordinator of
a transaction may be another broker."""

from __future__ import annotations

from collections.abc import Callable

from oncelog_protocol.errors import ErrorCode
from oncelog_server.deferred import Deferred
from oncelog_server.refusal import Refused
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.results import TransactionResult

Answer = TransactionResult | Deferred[TransactionResult]


class PartitionAdding:
    """`local` is the coordinator of this broker. `coordinator_of(key)` returns the id of the broker
    that coordinates a transactional id or a group, None if the metadata has no such broker.
    `remote(broker_id, command)` asks another broker."""

    def __init__(
        self,
        broker_id: int,
        local: Callable[[AddPartitions], Answer],
        coordinator_of: Callable[[str], int | None],
        remote: Callable[[int, AddPartitions], Answer],
    ) -> None:
        self._broker_id = broker_id
        self._local = local
        self._coordinator_of = coordinator_of
        self._remote = remote

    def __call__(self, command: AddPartitions) -> Answer:
        """Add partitions to the transaction, or only verify them. Raises Refused."""
        try:
            return self._local(command)
        except Refused as refused:
            if refused.code is not ErrorCode.NOT_COORDINATOR:
                raise
            broker_id = self._coordinator_of(command.group_id or command.transactional_id)
            if broker_id is None or broker_id == self._broker_id:
                raise
        return self._remote(broker_id, command)
