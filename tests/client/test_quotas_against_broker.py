"""The admin client's quotas, against oncelog and Apache Kafka."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from oncelog_client import Admin, KafkaError
from oncelog_client.admin import AnyName, ClientQuotaEntity, ClientQuotaFilter
from oncelog_client.admin.quota_descriptions import DEFAULT_NAME
from oncelog_protocol.errors import ErrorCode
from tests.harness.broker import Oncelog
from tests.harness.client_reading import eventually
from tests.harness.driving import QUICK
from tests.harness.kafka.kafka import Kafka

ALICE = ClientQuotaEntity(user="alice")
PAIR = ClientQuotaEntity("alice", DEFAULT_NAME)
ALL_USERS = ClientQuotaEntity(DEFAULT_NAME)
ADDRESSES = ClientQuotaEntity(ip=DEFAULT_NAME)
RATE, CONNECTIONS = "producer_byte_rate", "connection_creation_rate"


@pytest.fixture(params=["oncelog", "kafka"])
def address(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    with kind(tmp_path, QUICK) as broker:
        yield broker.address


async def test_quotas_are_set_described_and_removed(address: str) -> None:
    async with Admin(address) as admin:
        quotas: dict[ClientQuotaEntity, dict[str, float | None]] = {
            ALICE: {RATE: 1e9},
            PAIR: {RATE: 2e9, "request_percentage": 500.5},
            ALL_USERS: {RATE: 3e9},
            ADDRESSES: {CONNECTIONS: 1000.0},
        }
        await admin.alter_client_quotas(quotas, validate_only=True)
        assert await admin.describe_client_quotas() == {}
        await admin.alter_client_quotas(quotas)

        async def all_set() -> bool:
            return len(await admin.describe_client_quotas()) == len(quotas)

        await eventually(all_set)
        assert await admin.describe_client_quotas() == quotas
        for chosen, found in (
            (ClientQuotaFilter(user="alice"), {ALICE, PAIR}),
            (ClientQuotaFilter(user="alice", is_strict=True), {ALICE}),
            (ClientQuotaFilter(AnyName.ANY), {ALICE, PAIR, ALL_USERS}),
            (ClientQuotaFilter(DEFAULT_NAME), {ALL_USERS}),
            (ClientQuotaFilter(client_id=DEFAULT_NAME), {PAIR}),
            (ClientQuotaFilter(ip=AnyName.ANY), {ADDRESSES}),
        ):
            assert set(await admin.describe_client_quotas(chosen)) == found
        await admin.alter_client_quotas({PAIR: {RATE: None}, ALICE: {RATE: None}})

        async def removed() -> bool:
            return len(await admin.describe_client_quotas()) == len(quotas) - 1

        await eventually(removed)
        only = await admin.describe_client_quotas(ClientQuotaFilter("alice"))
        assert only == {PAIR: {"request_percentage": 500.5}}


async def test_a_refused_quota_raises_its_error(address: str) -> None:
    async with Admin(address) as admin:
        with pytest.raises(KafkaError, match="must be greater than 0") as caught:
            await admin.alter_client_quotas({ALICE: {RATE: -1.0}})
        assert caught.value.code == ErrorCode.INVALID_REQUEST
