"""kafka-configs.sh: describes and alters the settings of topics and brokers, the credentials of
users, and quotas."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from oncelog_client.admin.scram_credentials import UserScramCredentialAlteration
from oncelog_client.cli.options import run
from oncelog_client.kafka_tools import user_configs
from oncelog_client.kafka_tools.config_entities import (
    BROKERS,
    CLIENTS,
    IPS,
    TOPICS,
    USERS,
    Entities,
    check_counts,
    entities_of,
)
from oncelog_client.kafka_tools.config_options import OPTIONS, added, deleted
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError, check
from oncelog_client.kafka_tools.options import Given, OptionError
from oncelog_client.kafka_tools.quota_configs import Misused, alter, check_names, describe
from oncelog_client.kafka_tools.topic_names import listed
from oncelog_client.kafka_tools.user_configs import hidden
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
    DescribeConfigsResourceResult,
    DescribeConfigsResponse,
)
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
)

# The type of a resource in DescribeConfigs, and the source of its own settings (KIP-226)
_RESOURCES: Final = {TOPICS: 2, BROKERS: 4}
_OWN_SOURCE: Final = {TOPICS: 1, BROKERS: 2}
_CLIENTS: Final = frozenset({USERS, CLIENTS, IPS})
_DEFAULT_BROKER: Final = 3
_SOURCES: Final = {
    1: "DYNAMIC_TOPIC_CONFIG",
    2: "DYNAMIC_BROKER_CONFIG",
    3: "DYNAMIC_DEFAULT_BROKER_CONFIG",
    4: "STATIC_BROKER_CONFIG",
    5: "DEFAULT_CONFIG",
    6: "DYNAMIC_BROKER_LOGGER_CONFIG",
}
_MISUSES: Final = (ILLEGAL_ARGUMENT, "java.lang.NumberFormatException")
_SET: Final = 0
_DELETE: Final = 1


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        if not arguments:
            given.fail(OPTIONS.about)
        given.end_for_help_or_version()
        entities = entities_of(given)
        settings = read_settings(given.value("command-config"))
        if given.has("alter"):
            check_counts(entities)
        if _CLIENTS & set(entities.types):
            credentials = _credentials(given, entities)
            acting = _act_on_clients(given, settings, entities, credentials)
        else:
            entity = Entity(entities.types[0], entities.names[0] if entities.names else None)
            acting = _act(given, settings, entity, _changes(given, entity))
    except JavaError as error:
        if _is_misuse(error):
            sys.stderr.write(f"{error.message}\n")
            return 1
        return _failed(arguments, str(error))
    try:
        run(acting)
    except Misused as error:
        sys.stderr.write(f"{error.message}\n")
        return 1
    except JavaError as error:
        return _failed(arguments, f"java.util.concurrent.ExecutionException: {error}")
    return 0


def _is_misuse(error: JavaError) -> bool:
    """Return True if Kafka's tool prints only the message of this error."""
    return isinstance(error, OptionError | Misused) or error.java_class in _MISUSES


def _failed(arguments: Sequence[str], exception: str) -> int:
    """Print an error as Kafka's tool does, and return the exit code."""
    sys.stderr.write(
        "Error while executing config command with args "
        f"'{' '.join(map(hidden, arguments))}'\n{exception}\n"
    )
    return 1


class Entity(NamedTuple):
    """The topic or broker of a command. `name` is None for all entities of the type, "" for the
    defaults."""

    type: str
    name: str | None


def _changes(given: Given, entity: Entity) -> list[AlterableConfig]:
    """Return the changes of a command. Raises JavaError."""
    if not given.has("alter"):
        return []
    if entity.type not in _RESOURCES:
        raise JavaError(ILLEGAL_ARGUMENT, f"oncelog has no settings of {entity.type} yet")
    changes = [
        AlterableConfig(name=name, config_operation=_SET, value=value)
        for name, value in added(given).items()
    ]
    return changes + [
        AlterableConfig(name=name, config_operation=_DELETE, value="") for name in deleted(given)
    ]


async def _act(
    given: Given, settings: Mapping[str, Any], entity: Entity, changes: list[AlterableConfig]
) -> None:
    async with connected(given.value("bootstrap-server"), settings, "describeConfigs") as found:
        if given.has("alter"):
            await _alter(found, entity, changes)
        elif entity.type in _RESOURCES:
            for name in await _names(found, entity):
                await _describe(found, Entity(entity.type, name), is_all=given.has("all"))


def _credentials(given: Given, entities: Entities) -> list[UserScramCredentialAlteration] | None:
    """Return the alterations of credentials, or None if the command alters quotas or only
    describes. Raises JavaError."""
    if not given.has("alter"):
        return None
    new, old = added(given), deleted(given)
    if entities.types == (USERS,):
        return user_configs.alterations(given, entities.names, new, old)
    check_names(entities, new, old)
    return None


async def _act_on_clients(
    given: Given,
    settings: Mapping[str, Any],
    entities: Entities,
    credentials: list[UserScramCredentialAlteration] | None,
) -> None:
    """Describe or alter quotas, or credentials of users."""
    async with connected(
        given.value("bootstrap-server"), settings, "describeClientQuotas"
    ) as found:
        if given.has("describe"):
            await describe(found, entities)
            if entities.types == (USERS,) and "" not in entities.names:
                await user_configs.describe(found, entities.names)
            return
        if credentials is None:
            await alter(found, entities, added(given), deleted(given))
        else:
            await user_configs.alter(found, credentials)
        _print_completed(entities.types[0], entities.names[0])


async def _names(connection: Connection, entity: Entity) -> list[str]:
    """Return the names of the entities to describe. If the name does not exist, print a message and
    return no name."""
    if entity.name == "":
        return [""]
    if entity.type == "topics":
        existing = [topic.name for topic in await listed(connection) if topic.name]
    else:
        existing = [str(node) for node in sorted(connection.cluster.metadata.brokers)]
    if entity.name is None:
        return existing if entity.type == "topics" else [*existing, ""]
    if entity.name in existing:
        return [entity.name]
    sys.stdout.write(
        f"The {entity.type[:-1]} '{entity.name}' doesn't exist and doesn't have dynamic config.\n"
    )
    return []


async def _describe(connection: Connection, entity: Entity, *, is_all: bool) -> None:
    own = _DEFAULT_BROKER if entity.name == "" else _OWN_SOURCE[entity.type]
    if entity.name == "":
        heading = f"Default configs for {entity.type} in the cluster are:"
    else:
        which = "All" if is_all else "Dynamic"
        heading = f"{which} configs for {entity.type[:-1]} {entity.name} are:"
    resource = DescribeConfigsResource(
        resource_type=_RESOURCES[entity.type],
        resource_name=entity.name or "",
        configuration_keys=None,
    )
    request = DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    if entity.type == "brokers" and entity.name:
        response = await connection.call_node(int(entity.name), request, DescribeConfigsResponse)
    else:
        response = await connection.call_any(request, DescribeConfigsResponse)
    (described,) = response.results
    check(described.error_code, described.error_message)
    sys.stdout.write(f"{heading}\n")
    for row in sorted(described.configs, key=lambda row: row.name):
        if (is_all and entity.name) or row.config_source == own:
            sys.stdout.write(_line(row))


def _line(row: DescribeConfigsResourceResult) -> str:
    synonyms = ", ".join(
        f"{_SOURCES[synonym.source]}:{synonym.name}={_text(synonym.value)}"
        for synonym in row.synonyms
    )
    sensitive = "true" if row.is_sensitive else "false"
    return f"  {row.name}={_text(row.value)} sensitive={sensitive} synonyms={{{synonyms}}}\n"


def _text(value: str | None) -> str:
    return "null" if value is None else value


async def _alter(connection: Connection, entity: Entity, changes: list[AlterableConfig]) -> None:
    resource = AlterConfigsResource(
        resource_type=_RESOURCES[entity.type], resource_name=entity.name or "", configs=changes
    )
    request = IncrementalAlterConfigsRequest(resources=[resource])
    if entity.type == "brokers" and entity.name:
        response = await connection.call_node(
            int(entity.name), request, IncrementalAlterConfigsResponse
        )
    else:
        response = await connection.call_controller(request, IncrementalAlterConfigsResponse)
    for row in response.responses:
        check(row.error_code, row.error_message)
    _print_completed(entity.type, entity.name or "")


def _print_completed(type_: str, name: str) -> None:
    if name:
        sys.stdout.write(f"Completed updating config for {type_[:-1]} {name}.\n")
    else:
        sys.stdout.write(f"Completed updating default config for {type_} in the cluster.\n")
