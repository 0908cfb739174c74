"""Hanging transactions: a partition has records of a transaction that its coordinator does not know
(L12)."""

from __future__ import annotations

from typing import Any

from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

from oncelog.testing.wire import Wire
from tests.harness.transacting import last_stable_offset
from tests.harness.waiting import wait_until
from tests.harness.writing import Identity, batch, new_identity, produce

# With verification, a leader asks the coordinator before the first batch of a transaction (KIP-890
# part 1), so no transaction hangs.
VERIFICATION = "transaction.partition.verification.enable"


def turn_verification(admin: Any, value: str | None) -> None:
    """Change the verification setting at run time, as Kafka allows. None restores the default.
    Return when the broker knows the setting, because the caller relies on it."""
    operation = AlterConfigOpType.DELETE if value is None else AlterConfigOpType.SET
    entry = ConfigEntry(VERIFICATION, value, incremental_operation=operation)
    broker = ConfigResource(ResourceType.BROKER, "1", incremental_configs=[entry])
    for done in admin.incremental_alter_configs([broker]).values():
        done.result()

    def is_turned() -> bool:
        (described,) = admin.describe_configs([ConfigResource(ResourceType.BROKER, "1")]).values()
        return bool(described.result()[VERIFICATION].value == (value or "true"))

    wait_until(is_turned, f"{VERIFICATION} is {value}")


def hanging(wire: Wire, topic: str) -> Identity:
    """Return a producer with a batch in a transaction that the coordinator does not know."""
    producer = new_identity(wire, topic, version=2)
    # The partition's leader may apply the setting later than DescribeConfigs shows it.
    wait_until(
        lambda: (
            produce(wire, topic, batch(producer, 0), producer=producer, version=9).error_code == 0
        ),
        "a batch outside of any transaction",
    )
    assert last_stable_offset(wire, topic) == (0, 1)
    return producer
