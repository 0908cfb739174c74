"""A member with an assignment that it cannot read raises a KafkaError in `poll` and rejoins. The
assignment comes from the group's leader, which may be another client."""

from __future__ import annotations

from typing import Any, Final

import pytest

from oncelog_client import Consumer, KafkaError, TopicPartition
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.sync_group import SyncGroupResponse
from tests.client.scripted_broker import ScriptedBroker, simulated

UNREADABLE: Final = {
    "no-version": b"\0",
    "negative-version": b"\xff\xff\0\0\0\0",
    "truncated": b"\0\1\0\0\0\5xx",
    "no-utf-8": b"\0\0\0\0\0\1\0\1\xff\0\0\0\0\xff\xff\xff\xff",
    "negative-count": b"\0\0\xff\xff\xff\xf0",
}


@pytest.mark.parametrize("assignment", UNREADABLE.values(), ids=UNREADABLE)
def test_a_member_with_an_unreadable_assignment_rejoins(assignment: bytes) -> None:
    def script(api: ApiKey, request: Any) -> Any:
        if api is ApiKey.SYNC_GROUP and broker.counts[api] == 1:
            return SyncGroupResponse(
                protocol_type="consumer",
                protocol_name=request.protocol_name,
                assignment=assignment,
            )
        return None

    broker = ScriptedBroker(script)

    async def scenario() -> None:
        async with Consumer("broker:9092", group_id="payments") as consumer:
            await consumer.subscribe("t")
            with pytest.raises(KafkaError, match=r"payments: the assignment .* read") as raised:
                await consumer.poll(1000)
            assert raised.value.code is ErrorCode.INCONSISTENT_GROUP_PROTOCOL
            assert not consumer.assignment()
            await consumer.poll(1000)
            assert consumer.assignment() == {TopicPartition("t", 0)}
            assert broker.counts[ApiKey.JOIN_GROUP] == 2

    simulated(broker, scenario)
