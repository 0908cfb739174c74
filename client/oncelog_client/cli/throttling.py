"""Sets and removes the throttle of partitions that move."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from oncelog_client.cli.topic_settings import topic_settings
from oncelog_client.core.move_throttles import (
    RATES,
    REPLICAS,
    brokers_of,
    throttles_all,
    topic_throttles,
)

if TYPE_CHECKING:
    from oncelog_client.admin import Admin
    from oncelog_client.core.replica_layout import Move


async def set_throttle(
    admin: Admin, moves: Collection[Move], rate: int, alive: Collection[int]
) -> None:
    """Limit the moves to `rate` bytes per second of each broker. A topic with all replicas
    throttled (`*`) stays as it is. Raises KafkaError."""
    from oncelog_client.admin import AlterConfigOp, ConfigResource, ResourceType

    throttles = topic_throttles(moves)
    changes: dict[ConfigResource, list[AlterConfigOp]] = {
        ConfigResource(ResourceType.BROKER, str(broker)): [
            AlterConfigOp(name, str(rate)) for name in RATES
        ]
        for broker in brokers_of(moves)
        if broker in alive
    }
    for topic, present in (await _replicas(admin, throttles)).items():
        changes[ConfigResource(ResourceType.TOPIC, topic)] = [
            AlterConfigOp(name, value)
            for name, value in zip(REPLICAS, throttles[topic], strict=True)
            if not throttles_all(present[name])
        ]
    if throttles:
        await admin.alter_configs(changes)


async def remove_throttle(
    admin: Admin, topics: Collection[str], alive: Collection[int], *, has_rates: bool = False
) -> bool:
    """Remove the throttle of moves of these topics, and the rates of each live broker. The settings
    of an operator stay: throttled replicas `*`, and the default rates of all brokers. `has_rates`:
    the caller has set rates, which are removed even if no topic has throttled replicas any more.
    Return True if there was a throttle. Raises KafkaError."""
    from oncelog_client.admin import AlterConfigOp, ConfigResource, ResourceType

    changes: dict[ConfigResource, list[AlterConfigOp]] = {}
    for topic, present in (await _replicas(admin, topics)).items():
        own = [name for name, value in present.items() if value and not throttles_all(value)]
        if own:
            changes[ConfigResource(ResourceType.TOPIC, topic)] = [
                AlterConfigOp(name, op="delete") for name in own
            ]
    if not (changes or has_rates):
        return False
    for broker in alive:
        changes[ConfigResource(ResourceType.BROKER, str(broker))] = [
            AlterConfigOp(name, op="delete") for name in RATES
        ]
    await admin.alter_configs(changes)
    return True


async def _replicas(admin: Admin, topics: Collection[str]) -> dict[str, dict[str, str]]:
    """Return the throttled replicas of topics, by topic and setting."""
    return {
        topic: {name: (entries[name].value or "") if name in entries else "" for name in REPLICAS}
        for topic, entries in (await topic_settings(admin, topics, REPLICAS)).items()
    }
