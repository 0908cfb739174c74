"""The entities that the options of kafka-configs.sh name, and Kafka's checks of these options
(ConfigCommand.ConfigCommandOptions)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple, NoReturn

from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_client.kafka_tools.options import Given
from oncelog_protocol.security.hosts import is_address

TOPICS: Final = "topics"
CLIENTS: Final = "clients"
USERS: Final = "users"
BROKERS: Final = "brokers"
BROKER_LOGGERS: Final = "broker-loggers"
IPS: Final = "ips"
CLIENT_METRICS: Final = "client-metrics"
GROUPS: Final = "groups"

# The option of a single entity -> its type, in the order in which Kafka's tool looks at them.
NAME_FLAGS: Final = {
    "topic": TOPICS,
    "client": CLIENTS,
    "user": USERS,
    "broker": BROKERS,
    "broker-logger": BROKER_LOGGERS,
    "ip": IPS,
    "client-metrics": CLIENT_METRICS,
    "group": GROUPS,
}
DEFAULT_FLAGS: Final = {
    "client-defaults": CLIENTS,
    "user-defaults": USERS,
    "broker-defaults": BROKERS,
    "ip-defaults": IPS,
}
# In the order in which Kafka's tool prints them.
_TYPES: Final = (
    *(TOPICS, CLIENTS, USERS, BROKERS, IPS, CLIENT_METRICS, GROUPS),
    BROKER_LOGGERS,
)
_GENERAL: Final = ("entity-name", "entity-type", "entity-default")
_CHANGES: Final = ("add-config", "add-config-file", "delete-config")
_WITH_DEFAULTS: Final = frozenset({USERS, CLIENTS, BROKERS, IPS})
_INTEGER: Final = re.compile(r"[+-]?\d{1,10}", re.ASCII)
_INT32: Final = 2**31


class Entities(NamedTuple):
    """The entities of a command: their types, and their names in the order in which Kafka's tool
    takes them. There may be more or fewer names than types. The name "" is the default."""

    types: tuple[str, ...]
    names: tuple[str, ...]


def entities_of(given: Given) -> Entities:
    """Return the entities of a command. Ends the tool for options that do not fit together. Raises
    JavaError, in the order of Kafka's checks (checkArgs)."""
    if given.has("describe") == given.has("alter"):
        given.fail("Command must include exactly one action: --describe, --alter")
    given.refuse_with("describe", ("add-config", "delete-config"))
    flags = [name for name in (*NAME_FLAGS, *DEFAULT_FLAGS) if given.has(name)]
    kinds = {**NAME_FLAGS, **DEFAULT_FLAGS}
    types = (*given.values("entity-type"), *(kinds[name] for name in flags))
    _check_types(given, types)
    if flags and any(map(given.has, _GENERAL)):
        _refuse(
            "--entity-{type,name,default} should not be used in conjunction with specific entity "
            "flags"
        )
    names = (*_general_names(given), *(_name(given, flag) for flag in flags))
    entities = Entities(types, names)
    if given.has("bootstrap-controller"):
        _refuse(
            "Only one of --bootstrap-server or --bootstrap-controller can be specified"
            if given.has("bootstrap-server")
            else "oncelog has no listener for controllers: use --bootstrap-server"
        )
    _check_names(given, entities)
    if given.has("describe"):
        _check_describe(given, entities)
    else:
        _check_alter(given, entities)
    return entities


def check_counts(entities: Entities) -> None:
    """Raise JavaError unless each type has a name, as a change needs."""
    if len(entities.types) != len(entities.names):
        _refuse("An entity name must be specified for every entity type")


def _refuse(message: str) -> NoReturn:
    raise JavaError(ILLEGAL_ARGUMENT, message)


def _check_types(given: Given, types: Sequence[str]) -> None:
    repeated = [type_ for number, type_ in enumerate(types) if type_ in types[:number]]
    if repeated:
        _refuse(f"Duplicate entity type(s) specified: {','.join(repeated)}")
    if not given.has("bootstrap-server") and not given.has("bootstrap-controller"):
        _refuse("Either --bootstrap-server or --bootstrap-controller must be specified.")
    for type_ in types:
        if type_ not in _TYPES:
            _refuse(
                f"Invalid entity type {type_}, the entity type must be one of {', '.join(_TYPES)} "
                "with a --bootstrap-server or --bootstrap-controller argument"
            )
    if not types:
        _refuse("At least one entity type must be specified")
    if len(types) > 1 and set(types) != {USERS, CLIENTS}:
        _refuse("Only 'users' and 'clients' entity types may be specified together")


def _name(given: Given, flag: str) -> str:
    return (given.value(flag) or "") if flag in NAME_FLAGS else ""


def _general_names(given: Given) -> list[str]:
    """Return the names of --entity-name and --entity-default, in their order."""
    names = iter(given.values("entity-name"))
    return [
        next(names) if option == "entity-name" else ""
        for option in given.order
        if option in ("entity-name", "entity-default")
    ]


def _check_names(given: Given, entities: Entities) -> None:
    if not any(entities.names):
        return
    if {BROKERS, BROKER_LOGGERS} & set(entities.types):
        for text in _values(given, ("entity-name", "broker", "broker-logger")):
            if not _INTEGER.fullmatch(text) or not -_INT32 <= int(text) < _INT32:
                _refuse(
                    f"The entity name for {entities.types[0]} must be a valid integer broker id, "
                    f"but it is: {text}"
                )
    if IPS in entities.types:
        for text in _values(given, ("entity-name", "ip")):
            if not is_address(text):
                _refuse(
                    f"The entity name for {entities.types[0]} must be a valid IP or resolvable "
                    f"host, but it is: {text}"
                )


def _values(given: Given, options: Sequence[str]) -> list[str]:
    return [given.value(option) or "" for option in options if given.has(option)]


def _check_describe(given: Given, entities: Entities) -> None:
    shown = ",".join(entities.types)
    if given.has("entity-default") and not _WITH_DEFAULTS & set(entities.types):
        _refuse(f"--entity-default must not be specified with --describe of {shown}")
    if BROKER_LOGGERS in entities.types and not any(entities.names):
        _refuse(f"An entity name must be specified with --describe of {shown}")


def _check_alter(given: Given, entities: Entities) -> None:
    if _WITH_DEFAULTS & set(entities.types):
        if not entities.names:
            _refuse(
                "An entity-name or default entity must be specified with --alter of users, "
                "clients, brokers or ips"
            )
    elif not any(entities.names):
        _refuse(f"An entity name must be specified with --alter of {','.join(entities.types)}")
    if given.has("add-config") and given.has("add-config-file"):
        _refuse("Only one of --add-config or --add-config-file must be specified")
    if not any(map(given.has, _CHANGES)):
        _refuse(
            "At least one of --add-config, --add-config-file, or --delete-config must be specified "
            "with --alter"
        )
