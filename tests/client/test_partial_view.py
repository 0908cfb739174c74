"""A principal that may abort transactions, but may not see all of them: the tools find no hanging
transactions, because a live one would look hanging."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client import Admin, KafkaError, Producer
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    ResourcePattern,
)
from oncelog_protocol.errors import ErrorCode
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.client.cli.conftest import CommandLine
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually
from tests.harness.driving import QUICK

# Every client is User:ANONYMOUS. Without a rule about a resource, it may do everything.
SETTINGS = {
    **QUICK,
    "authorizer.class.name": STANDARD_AUTHORIZER,
    "allow.everyone.if.no.acl.found": "true",
}
HIDDEN = AclBinding(
    ResourcePattern(AclResourceType.TRANSACTIONAL_ID, "hidden"),
    AccessControlEntry("User:ANONYMOUS", "*", AclOperation.DESCRIBE, AclPermissionType.DENY),
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Oncelog]:
    with Oncelog(tmp_path, SETTINGS) as process:
        yield process


async def test_a_hidden_transaction_is_not_taken_for_a_hanging_one(broker: Oncelog) -> None:
    async with (
        Admin(broker.address) as admin,
        Producer(broker.address, transactional_id="hidden") as producer,
    ):
        await producer.init_transactions()
        await producer.begin_transaction()
        await (await producer.send("orders", b"undecided"))
        (listing,) = await admin.list_transactions()
        await admin.create_acls([HIDDEN])

        async def is_hidden() -> bool:
            return await admin.list_transactions() == []

        await eventually(is_hidden)
        with pytest.raises(KafkaError, match="may not describe") as refused:
            await admin.list_transactions(producer_ids={listing.producer_id})
        assert refused.value.code is ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        hanging = ("find-hanging", "--topic", "orders", "--max-transaction-timeout", "0")
        refused_call = CommandLine(broker.address).refused
        text = await asyncio.to_thread(refused_call, "transactions", *hanging)
        assert "may not describe" in text
        await admin.delete_acls([AclBindingFilter()])

        async def is_shown() -> bool:
            return await admin.list_transactions() != []

        await eventually(is_shown)
        await producer.abort_transaction()
