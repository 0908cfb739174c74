"""The admin client's access rules, with brokers that have an authorizer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client import Admin, KafkaError
from oncelog_client.admin import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_protocol.errors import ErrorCode
from oncelog_server.settings.security import STANDARD_AUTHORIZER
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually
from tests.harness.driving import QUICK
from tests.harness.kafka.kafka import Kafka

READ = AccessControlEntry("User:a", "*", AclOperation.READ, AclPermissionType.ALLOW)
ORDERS = AclBinding(ResourcePattern(AclResourceType.TOPIC, "orders"), READ)
PREFIX = AclBinding(
    ResourcePattern(AclResourceType.GROUP, "bill", PatternType.PREFIXED),
    READ._replace(principal="User:b", permission_type=AclPermissionType.DENY),
)


@pytest.fixture(params=["oncelog", "kafka"])
def authorizing(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    settings = {
        **QUICK,
        "authorizer.class.name": STANDARD_AUTHORIZER,
        "super.users": "User:ANONYMOUS",
    }
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    with kind(tmp_path, settings) as broker:
        yield broker.address


async def test_rules_are_created_described_and_deleted(authorizing: str) -> None:
    async with Admin(authorizing) as admin:
        await admin.create_acls([ORDERS, PREFIX, ORDERS])

        async def both() -> bool:
            return len(await admin.describe_acls()) == 2

        await eventually(both)
        assert set(await admin.describe_acls()) == {ORDERS, PREFIX}
        fitting = AclBindingFilter(AclResourceType.GROUP, "billing", PatternType.MATCH)
        assert await admin.describe_acls(fitting) == [PREFIX]
        of_b = AclBindingFilter(principal="User:b")
        assert await admin.delete_acls([fitting, of_b]) == [PREFIX]

        async def one() -> bool:
            return await admin.describe_acls() == [ORDERS]

        await eventually(one)


async def test_a_wrong_rule_is_refused(authorizing: str) -> None:
    wrong = AclBinding(ResourcePattern(AclResourceType.CLUSTER, "mine"), READ)
    async with Admin(authorizing) as admin:
        with pytest.raises(KafkaError, match="The only valid name for the CLUSTER") as caught:
            await admin.create_acls([wrong])
        assert caught.value.code is ErrorCode.INVALID_REQUEST


async def test_without_an_authorizer_the_error_says_so(bootstrap: str) -> None:
    async with Admin(bootstrap) as admin:
        for call in (
            admin.describe_acls(),
            admin.create_acls([ORDERS]),
            admin.delete_acls([AclBindingFilter()]),
        ):
            with pytest.raises(KafkaError) as caught:
                await call
            assert caught.value.code is ErrorCode.SECURITY_DISABLED
