"""Leaders of partitions find the coordinator of a transaction on any broker (KIP-890)."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.refusal import Refused
from oncelog_server.topic_partition import TopicPartition
from oncelog_server.transaction.commands.add_partitions import AddPartitions
from oncelog_server.transaction.partition_adding import PartitionAdding
from oncelog_server.transaction.results import BUSY, SUCCESS, TransactionResult

OWN, OTHER = 1, 2
COMMAND = AddPartitions("id", 7, 0, frozenset({TopicPartition("a", 0)}), 2)
IN_GROUP = AddPartitions("id", 7, 0, frozenset({TopicPartition("a", 0)}), 2, group_id="group")


class Brokers:
    """`code` is that of the local coordinator, NONE if it succeeds. `coordinators` are the brokers
    of ids and groups."""

    def __init__(self, code: ErrorCode, coordinators: dict[str, int]) -> None:
        self.code = code
        self.sent: list[tuple[int, AddPartitions]] = []
        self.adding = PartitionAdding(OWN, self._local, coordinators.get, self._remote)

    def _local(self, command: AddPartitions) -> TransactionResult:
        if self.code is not ErrorCode.NONE:
            raise Refused(self.code)
        return SUCCESS

    def _remote(self, broker_id: int, command: AddPartitions) -> TransactionResult:
        self.sent.append((broker_id, command))
        return BUSY


def test_the_local_coordinator_needs_no_request() -> None:
    brokers = Brokers(ErrorCode.NONE, {"id": OTHER})
    assert brokers.adding(COMMAND) is SUCCESS
    assert not brokers.sent


@pytest.mark.parametrize("command", [COMMAND, IN_GROUP])
def test_another_coordinator_is_asked(command: AddPartitions) -> None:
    """The group selects the coordinator of a transactional id with a group."""
    brokers = Brokers(ErrorCode.NOT_COORDINATOR, {command.group_id or "id": OTHER})
    assert brokers.adding(command) is BUSY
    assert brokers.sent == [(OTHER, command)]


@pytest.mark.parametrize(
    ("code", "coordinators"),
    [
        (ErrorCode.NOT_COORDINATOR, {}),
        (ErrorCode.NOT_COORDINATOR, {"id": OWN}),
        (ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, {"id": OTHER}),
        (ErrorCode.COORDINATOR_NOT_AVAILABLE, {"id": OTHER}),
    ],
)
def test_any_other_refusal_is_that_of_the_local_coordinator(
    code: ErrorCode, coordinators: dict[str, int]
) -> None:
    """If the metadata names this broker as the leader, it is about to load the shard and asks no
    other broker."""
    brokers = Brokers(code, coordinators)
    with pytest.raises(Refused) as refused:
        brokers.adding(COMMAND)
    assert refused.value.code is code
    assert not brokers.sent
