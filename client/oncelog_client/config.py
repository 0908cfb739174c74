"""Settings of the clients: Kafka's names in snake case, Kafka's defaults, and errors for the
combinations that Kafka refuses.

A `...Settings` holds the values that the caller set, a `...Config` the effective values. The rules
for idempotence need both: another setting may turn idempotence off only if the caller did not set
`enable_idempotence` (KIP-679). A name is loaded at first use, because a client needs only the
settings of its own kind.
"""

from __future__ import annotations

from importlib import import_module

# Type checkers take this for true. An import of `typing` would take most of the time of this
# module's import.
TYPE_CHECKING = False
if TYPE_CHECKING:
    from .core.client_config import (
        AdminConfig,
        AdminSettings,
        ClientConfig,
        ClientSettings,
        IsolationLevel,
        admin_config,
        client_config,
    )
    from .core.consumer_config import (
        AssignorName,
        ConsumerConfig,
        ConsumerSettings,
        consumer_config,
    )
    from .core.offset_reset import OffsetReset
    from .core.producer_config import (
        MAX_IN_FLIGHT_WITH_IDEMPOTENCE,
        Acks,
        ProducerConfig,
        ProducerSettings,
        producer_config,
    )
    from .core.security_settings import SecuritySettings

# Name -> the module of `oncelog_client.core` that has it.
_HOMES = {
    "Acks": "producer_config",
    "AdminConfig": "client_config",
    "AdminSettings": "client_config",
    "AssignorName": "consumer_config",
    "ClientConfig": "client_config",
    "ClientSettings": "client_config",
    "ConsumerConfig": "consumer_config",
    "ConsumerSettings": "consumer_config",
    "IsolationLevel": "client_config",
    "MAX_IN_FLIGHT_WITH_IDEMPOTENCE": "producer_config",
    "OffsetReset": "offset_reset",
    "ProducerConfig": "producer_config",
    "ProducerSettings": "producer_config",
    "SecuritySettings": "security_settings",
    "admin_config": "client_config",
    "client_config": "client_config",
    "consumer_config": "consumer_config",
    "producer_config": "producer_config",
}


def __getattr__(name: str) -> object:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    found: object = getattr(import_module(f"oncelog_client.core.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return list(__all__)


__all__ = [
    "MAX_IN_FLIGHT_WITH_IDEMPOTENCE",
    "Acks",
    "AdminConfig",
    "AdminSettings",
    "AssignorName",
    "ClientConfig",
    "ClientSettings",
    "ConsumerConfig",
    "ConsumerSettings",
    "IsolationLevel",
    "OffsetReset",
    "ProducerConfig",
    "ProducerSettings",
    "SecuritySettings",
    "admin_config",
    "client_config",
    "consumer_config",
    "producer_config",
]
