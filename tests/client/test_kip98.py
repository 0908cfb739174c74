"""Every client setting that KIP-98 names: its default and its limits.

If Kafka has changed a default, the row names the KIP. The brokers' settings are in
tests/server/settings/test_kip98.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import pytest

from oncelog_client.config import consumer_config, producer_config
from oncelog_client.errors import ConfigError


class Row(NamedTuple):
    """`kip_98`: the default in KIP-98 (2017), or None if the default is unchanged. `refused`:
    values that raise an error."""

    name: str
    default: Any
    kip_98: Any = None
    refused: tuple[Any, ...] = ()


PRODUCER = (
    Row("enable_idempotence", True, kip_98=False),  # KIP-679
    Row("acks", -1, kip_98=1, refused=(2, "most")),  # KIP-679; -1 is "all"
    Row("retries", 2**31 - 1, kip_98=0, refused=(-1, 2**31)),  # KIP-91
    # KIP-98 allowed only 1 with idempotence. Since KAFKA-5494 brokers remember five batches.
    Row("max_in_flight_requests_per_connection", 5, refused=(0,)),
    Row("transaction_timeout_ms", 60_000, refused=(0, -1)),
    Row("transactional_id", None),
)
CONSUMER = (Row("isolation_level", "read_uncommitted", refused=("serializable", "")),)


def names(row: Row) -> str:
    return row.name


@pytest.mark.parametrize("row", PRODUCER, ids=names)
def test_the_default_of_a_producer_setting_is_kafkas(row: Row) -> None:
    assert getattr(producer_config("localhost:1", {}), row.name) == row.default


@pytest.mark.parametrize("row", CONSUMER, ids=names)
def test_the_default_of_a_consumer_setting_is_kafkas(row: Row) -> None:
    assert getattr(consumer_config("localhost:1", {}), row.name) == row.default


@pytest.mark.parametrize("row", PRODUCER, ids=names)
def test_a_producer_setting_out_of_its_limits_is_refused(row: Row) -> None:
    for value in row.refused:
        settings: Any = {row.name: value}
        with pytest.raises(ConfigError, match=row.name):
            producer_config("localhost:1", settings)


@pytest.mark.parametrize("row", CONSUMER, ids=names)
def test_a_consumer_setting_out_of_its_limits_is_refused(row: Row) -> None:
    for value in row.refused:
        settings: Any = {row.name: value}
        with pytest.raises(ConfigError, match=row.name):
            consumer_config("localhost:1", {"group_id": "g"} | settings)


def test_the_default_of_2017_is_still_accepted() -> None:
    """A producer without transactions can have the settings of 2017."""
    old: Any = {row.name: row.kip_98 for row in PRODUCER if row.kip_98 is not None}
    made = producer_config("localhost:1", old)
    assert {name: getattr(made, name) for name in old} == old
