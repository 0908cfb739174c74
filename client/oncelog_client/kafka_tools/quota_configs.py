"""kafka-configs.sh for quotas: describes and alters the quotas of users, clients and addresses."""

from __future__ import annotations

import sys
from collections.abc import Collection, Mapping, Sequence
from itertools import zip_longest
from typing import Final

from oncelog_client.admin.scram_credentials import ScramMechanism
from oncelog_client.kafka_tools.config_entities import CLIENTS, IPS, USERS, Entities
from oncelog_client.kafka_tools.connecting import Connection
from oncelog_client.kafka_tools.failures import ERRORS_PACKAGE, ILLEGAL_ARGUMENT, JavaError, check
from oncelog_client.kafka_tools.java_text import double_text, in_hash_order, map_hash, string_hash
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    AlterClientQuotasResponse,
    EntityData,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
    DescribeClientQuotasResponse,
)

# A type of the tool -> the type of an entity, and the tool's words for such an entity.
_TYPES: Final = {USERS: "user", CLIENTS: "client-id", IPS: "ip"}
_SHOWN: Final = {"user": "user-principal", "client-id": "client-id", "ip": "ip"}
CLIENT_QUOTAS: Final = frozenset(
    {
        "producer_byte_rate",
        "consumer_byte_rate",
        "request_percentage",
        "controller_mutation_rate",
    }
)
_ADDRESS_QUOTAS: Final = frozenset({"connection_creation_rate"})
# Match types.
_EXACT, _DEFAULT, _ANY = 0, 1, 2
_INVALID_CONFIG: Final = f"{ERRORS_PACKAGE}.InvalidConfigurationException"
_Names = Mapping[str, str | None]


class Misused(JavaError):
    """An error in the command. kafka-configs prints its message alone."""


def check_names(entities: Entities, added: Collection[str], deleted: Collection[str]) -> None:
    """Raise JavaError for a name that is no quota of these clients or addresses."""
    if entities.types[0] == IPS:
        unknown = [name for name in (*added, *deleted) if name not in _ADDRESS_QUOTAS]
        if unknown:
            raise Misused(
                ILLEGAL_ARGUMENT,
                "Only connection quota configs can be added for 'ips' using --bootstrap-server. "
                f"Unexpected config names: {','.join(unknown)}",
            )
        return
    for verb, form, names in (("added", "Set", added), ("deleted", "ArrayBuffer", deleted)):
        unknown = [name for name in names if name not in CLIENT_QUOTAS]
        if unknown:
            raise Misused(
                ILLEGAL_ARGUMENT,
                f"Only quota configs can be {verb} for '{CLIENTS}' using --bootstrap-server. "
                f"Unexpected config names: {form}({', '.join(sorted(unknown, key=_is_scram))})",
            )


def _is_scram(name: str) -> bool:
    """Return True for a credential, which Kafka's tool prints after unknown names."""
    return any(name == mechanism.sasl for mechanism in ScramMechanism)


async def describe(connection: Connection, entities: Entities) -> None:
    """Print a line for each entity with quotas."""
    for names, quotas in await _described(connection, entities):
        shown = ", ".join(
            f"the default {word}" if names[type_] is None else f"{word} '{names[type_]}'"
            for type_, word in _SHOWN.items()
            if type_ in names
        )
        limits = ", ".join(f"{name}={double_text(limit)}" for name, limit in quotas.items())
        sys.stdout.write(f"Quota configs for {shown} are {limits}\n")


async def alter(
    connection: Connection,
    entities: Entities,
    added: Mapping[str, str],
    deleted: Sequence[str],
) -> None:
    """Set and remove the quotas of one entity. Raises JavaError."""
    found = await _described(connection, entities)
    old = found[0][1] if found else {}
    missing = [name for name in deleted if name not in old]
    if missing:
        raise Misused(_INVALID_CONFIG, f"Invalid config(s): {','.join(missing)}")
    ops = [OpData(name, _limit(name, text), remove=False) for name, text in added.items()]
    ops += [OpData(name, 0.0, remove=True) for name in deleted]
    parts = zip(entities.types, entities.names, strict=True)
    entry = EntryData([EntityData(_TYPES[type_], name or None) for type_, name in parts], ops)
    response = await connection.call_controller(
        AlterClientQuotasRequest([entry], validate_only=False), AlterClientQuotasResponse
    )
    for row in response.entries:
        check(row.error_code, row.error_message)


def _limit(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise Misused(
            ILLEGAL_ARGUMENT, f"Cannot parse quota configuration value for {name}: {text}"
        ) from None


async def _described(
    connection: Connection, entities: Entities
) -> list[tuple[_Names, dict[str, float]]]:
    """Return the entities with their quotas, both in the order of the Java client's maps."""
    components = [_component(*pair) for pair in zip_longest(entities.types, entities.names)]
    request = DescribeClientQuotasRequest(components, strict=True)
    response = await connection.call_any(request, DescribeClientQuotasResponse)
    check(response.error_code, response.error_message)
    entries = response.entries or []
    found = {
        frozenset((part.entity_type, part.entity_name) for part in entry.entity): {
            row.key: row.value for row in entry.values
        }
        for entry in entries
    }
    # Objects.hash of the only field of an entity, a map.
    ordered = in_hash_order(found, lambda key: (31 + map_hash(dict(key))) % 2**32, len(entries))
    return [(dict(key), _in_order(found[key])) for key in ordered]


def _in_order(quotas: Mapping[str, float]) -> dict[str, float]:
    return {name: quotas[name] for name in in_hash_order(quotas, string_hash, len(quotas))}


def _component(type_: str | None, name: str | None) -> ComponentData:
    if type_ is None:
        raise Misused(ILLEGAL_ARGUMENT, "More entity names specified than entity types")
    if name is None:
        return ComponentData(_TYPES[type_], _ANY)
    if name == "":
        return ComponentData(_TYPES[type_], _DEFAULT)
    return ComponentData(_TYPES[type_], _EXACT, name)
