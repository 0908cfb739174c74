"""The entities that the options of kafka-configs.sh name for quotas, and their checks."""

from __future__ import annotations

from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_client.kafka_tools.options import Given
from oncelog_client.kafka_tools.quota_configs import CLIENTS, IPS, USERS, QuotaEntities

# The options of single entities, in the order in which Kafka's tool looks at them.
_FLAGS: Final = {"client": CLIENTS, "user": USERS, "ip": IPS}
_DEFAULTS: Final = {"client-defaults": CLIENTS, "user-defaults": USERS, "ip-defaults": IPS}
_GENERAL: Final = ("entity-name", "entity-type", "entity-default")


def quota_entities(given: Given, arguments: Sequence[str]) -> QuotaEntities | None:
    """Return the entities of a command about users, clients or addresses, or None if it is about
    another type. Ends the tool for options that do not fit together. Raises JavaError."""
    flags = [name for name in (*_FLAGS, *_DEFAULTS) if given.has(name)]
    kinds = {**_FLAGS, **_DEFAULTS}
    types = (*given.values("entity-type"), *(kinds[name] for name in flags))
    if not types or not set(types) <= {USERS, CLIENTS, IPS}:
        return None
    if given.has("describe") == given.has("alter"):
        return None
    for name in ("add-config", "delete-config"):
        given.refuse_with("describe", [name])
    repeated = [type_ for number, type_ in enumerate(types) if type_ in types[:number]]
    if repeated:
        raise JavaError(
            ILLEGAL_ARGUMENT, f"Duplicate entity type(s) specified: {','.join(repeated)}"
        )
    if not given.has("bootstrap-server"):
        return None
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        raise JavaError(
            ILLEGAL_ARGUMENT, "Only 'users' and 'clients' entity types may be specified together"
        )
    if flags and any(map(given.has, _GENERAL)):
        raise JavaError(
            ILLEGAL_ARGUMENT,
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags",
        )
    names = (*_general_names(given, arguments), *(_name(given, flag) for flag in flags))
    _check_names(given, types, names)
    return QuotaEntities(types, names)


def _name(given: Given, flag: str) -> str:
    return (given.value(flag) or "") if flag in _FLAGS else ""


def _general_names(given: Given, arguments: Sequence[str]) -> list[str]:
    """Return the names of --entity-name and --entity-default, in their order."""
    words = (word.lstrip("-").partition("=")[0] for word in arguments if word.startswith("-"))
    names = iter(given.values("entity-name"))
    return [
        next(names) if word == "entity-name" else ""
        for word in words
        if word in ("entity-name", "entity-default")
    ]


def _check_names(given: Given, types: Sequence[str], names: Sequence[str]) -> None:
    if IPS in types:
        for name in filter(None, names):
            if not _is_address(name):
                raise JavaError(
                    ILLEGAL_ARGUMENT,
                    "The entity name for ips must be a valid IP or resolvable host, but it is: "
                    f"{name}",
                )
    if not given.has("alter"):
        return
    if not names:
        raise JavaError(
            ILLEGAL_ARGUMENT,
            "An entity-name or default entity must be specified with --alter of users, clients, "
            "brokers or ips",
        )
    if given.has("add-config") and given.has("add-config-file"):
        raise JavaError(
            ILLEGAL_ARGUMENT, "Only one of --add-config or --add-config-file must be specified"
        )
    if not any(map(given.has, ("add-config", "add-config-file", "delete-config"))):
        raise JavaError(
            ILLEGAL_ARGUMENT,
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter",
        )


def _is_address(text: str) -> bool:
    try:
        ip_address(text)
    except ValueError:
        return False
    return True
