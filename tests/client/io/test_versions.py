"""The version of each request, against a broker that speaks the newest version of every API."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_client.config import producer_config
from oncelog_client.io.connections import Connections
from oncelog_protocol.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from oncelog_protocol.messages.fetch import FetchRequest
from oncelog_protocol.messages.find_coordinator import FindCoordinatorRequest
from oncelog_protocol.messages.heartbeat import HeartbeatRequest
from oncelog_protocol.messages.offset_commit import OffsetCommitRequest
from oncelog_protocol.messages.offset_fetch import OffsetFetchRequest
from oncelog_protocol.messages.produce import ProduceRequest
from oncelog_protocol.messages.txn_offset_commit import TxnOffsetCommitRequest
from tests.client.scripted_broker import ADDRESS, ScriptedBroker, simulated


@pytest.mark.parametrize(
    ("request_type", "newest"),
    [
        (ProduceRequest, 12),
        (FetchRequest, 12),
        (OffsetCommitRequest, 9),
        (OffsetFetchRequest, 9),
        (TxnOffsetCommitRequest, 5),
        (FindCoordinatorRequest, 5),
        (AddPartitionsToTxnRequest, 3),
        (HeartbeatRequest, 4),
    ],
)
def test_a_client_sends_the_newest_version_that_has_the_names_of_topics(
    request_type: type[Any], newest: int
) -> None:
    """In Produce, Fetch and the offset APIs, the version after `newest` names topics by id
    (KIP-516). In FindCoordinator, the version after `newest` is for share groups (KIP-932), and in
    AddPartitionsToTxn for brokers (KIP-890). Heartbeat has no version after `newest`."""

    async def scenario() -> int:
        connections = Connections(
            producer_config("broker:9092", {}),
            spawn=lambda work: None,
            on_failed=lambda: None,
        )
        connection = await connections.get(ADDRESS)
        version = connection.version(object.__new__(request_type))
        connections.close()
        return version

    assert simulated(ScriptedBroker(), scenario) == newest
