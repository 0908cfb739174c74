"""The options of kafka-acls.sh, and the rules and resources that they describe. The order of the
checks is that of Kafka's AclCommand."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Final

from oncelog_client.core.acl_bindings import (
    CLUSTER_NAME,
    SUPPORTED_OPERATIONS,
    AccessControlEntry,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError
from oncelog_client.kafka_tools.options import Given, Option, OptionError, Options

# Kafka's tool prints a filter as a pattern, so the type of a pattern may be ANY or MATCH.
Entries = dict[ResourcePattern, dict[AccessControlEntry, None]]

_NO_RESOURCE: Final = (
    "You must provide at least one resource: --topic <topic> or --cluster or --group <group> or "
    "--delegation-token <Delegation Token ID>"
)
_NO_PRINCIPAL: Final = (
    "You must specify one of: --allow-principal, --deny-principal when trying to add ACLs."
)
_CONSUMER: Final = (
    "With --consumer you must specify a --topic and a --group and no --cluster or "
    "--transactional-id option should be specified."
)
_ONE_SERVER: Final = "ne of --bootstrap-server or --bootstrap-controller must be specified"
_ACTIONS: Final = ("add", "remove", "list")

_NAMED: Final = (
    ("topic", AclResourceType.TOPIC),
    ("group", AclResourceType.GROUP),
    ("transactional-id", AclResourceType.TRANSACTIONAL_ID),
    ("delegation-token", AclResourceType.DELEGATION_TOKEN),
    ("user-principal", AclResourceType.USER),
)
_CLUSTER: Final = ResourcePattern(AclResourceType.CLUSTER, CLUSTER_NAME)

OPTIONS: Final = Options(
    "This tool helps to manage acls on kafka.",
    [
        Option("add", "Add rules."),
        Option("remove", "Remove rules."),
        Option("list", "List the rules of the given resources, or all rules."),
        Option("bootstrap-server", "Brokers of the cluster.", "String: server to connect to"),
        Option("bootstrap-controller", "Not possible here.", "String: controller to connect to"),
        Option("command-config", "Client settings.", "String: command-config", is_optional=True),
        Option("topic", "A topic, * for all topics.", "String: topic"),
        Option("group", "A consumer group, * for all groups.", "String: group"),
        Option("transactional-id", "A transactional id, * for all.", "String: transactional-id"),
        Option("delegation-token", "A token, * for all.", "String: delegation-token"),
        Option("user-principal", "A user, for rules of tokens.", "String: user-principal"),
        Option("cluster", "The cluster."),
        Option(
            "resource-pattern-type",
            "How names are compared: LITERAL or PREFIXED; to list and remove also ANY, which takes "
            "both, or MATCH, which takes every pattern that the name fits.",
            "PatternType",
            default="LITERAL",
        ),
        Option("operation", "An operation, such as Read.", "String", default="All"),
        Option("allow-principal", "A principal to allow: User:alice.", "String: allow-principal"),
        Option("deny-principal", "A principal to deny: User:alice.", "String: deny-principal"),
        Option("allow-host", "The address to allow, * by default.", "String: allow-host"),
        Option("deny-host", "The address to deny, * by default.", "String: deny-host"),
        Option("principal", "With --list: only its rules.", "String: principal", is_optional=True),
        Option("producer", "What a producer needs: WRITE, DESCRIBE, CREATE on a topic."),
        Option("idempotent", "With --producer: also IDEMPOTENT_WRITE on the cluster."),
        Option(
            "consumer",
            "What a consumer needs: READ, DESCRIBE on a topic, READ on a group.",
        ),
        Option("force", "Remove without a question."),
    ],
)


def parsed(arguments: Iterable[str]) -> Given:
    """Return the checked options. Raises Ended after the message and the usage text."""
    words = list(arguments)
    given = _given(words)
    if not words:
        given.fail(OPTIONS.about)
    given.end_for_help_or_version()
    if given.has("bootstrap-server") and given.has("bootstrap-controller"):
        given.fail(f"Only o{_ONE_SERVER}")
    if not given.has("bootstrap-server") and not given.has("bootstrap-controller"):
        given.fail(f"O{_ONE_SERVER}")
    if sum(given.has(action) for action in _ACTIONS) != 1:
        given.fail("Command must include exactly one action: --list, --add, --remove. ")
    given.refuse_with(
        "list",
        ("producer", "consumer", "allow-host", "allow-principal", "deny-host", "deny-principal"),
    )
    for role in ("producer", "consumer"):
        given.refuse_with(role, ("operation", "deny-principal", "deny-host"))
    if given.has("principal") and not given.has("list"):
        given.fail("The --principal option is only available if --list is set")
    if given.has("producer") and not given.has("topic"):
        given.fail("With --producer you must specify a --topic")
    if given.has("idempotent") and not given.has("producer"):
        given.fail("The --idempotent option is only available if --producer is set")
    if given.has("consumer") and not _is_complete_consumer(given):
        given.fail(_CONSUMER)
    return given


def _given(arguments: list[str]) -> Given:
    try:
        return OPTIONS.parse(arguments)
    except OptionError as error:
        OPTIONS.parse([]).fail(error.message)


def _is_complete_consumer(given: Given) -> bool:
    if not given.has("topic") or not given.has("group"):
        return False
    only_consumer = not given.has("producer")
    return not (only_consumer and (given.has("cluster") or given.has("transactional-id")))


def pattern_type(given: Given) -> PatternType:
    """Return the type of the pattern. Raises OptionError for a text that is no type."""
    text = given.value("resource-pattern-type") or ""
    try:
        return PatternType[text.upper()]
    except KeyError:
        raise OptionError(
            "joptsimple.OptionArgumentConversionException",
            f"Cannot parse argument '{text}' of option resource-pattern-type",
        ) from None


def resources(given: Given) -> list[ResourcePattern]:
    """Return the resources of the options."""
    kind = pattern_type(given)
    found = [
        ResourcePattern(
            type_, name if type_ is AclResourceType.TRANSACTIONAL_ID else name.strip(), kind
        )
        for option, type_ in _NAMED
        for name in given.values(option)
    ]
    if kind is PatternType.LITERAL and (given.has("cluster") or given.has("idempotent")):
        found.append(_CLUSTER)
    return list(dict.fromkeys(found))


def new_entries(given: Given) -> Entries:
    """Return the rules to add, by pattern."""
    kind = pattern_type(given)
    if kind in (PatternType.ANY, PatternType.MATCH):
        given.fail(
            f"A '--resource-pattern-type' value of '{kind.name}' is not valid when adding acls."
        )
    found = entries(given)
    if not all(found.values()):
        given.fail(_NO_PRINCIPAL)
    return found


def entries(given: Given) -> Entries:
    """Return the rules that the options describe, by pattern. A pattern without a rule stands for
    all of its rules."""
    found: Entries = {}
    if not given.has("producer") and not given.has("consumer"):
        operations = [_operation(text.strip()) for text in given.values("operation") or ["All"]]
        own = _entries(given, operations)
        found = dict.fromkeys(_required_resources(given), own)
    if given.has("producer"):
        _add_producer(given, found)
    if given.has("consumer"):
        _add_consumer(given, found)
    for pattern, acls in found.items():
        _check_operations(given, pattern.resource_type, acls)
    return found


def principals(given: Given, option: str) -> list[str]:
    """Return the principals of an option. Raises JavaError for a text that is no principal."""
    names = [name.strip() for name in given.values(option)]
    for name in names:
        if ":" not in name:
            raise JavaError(
                ILLEGAL_ARGUMENT,
                f"expected a string in format principalType:principalName but got {name}",
            )
    return list(dict.fromkeys(names))


def _required_resources(given: Given) -> list[ResourcePattern]:
    found = resources(given)
    if not found:
        given.fail(_NO_RESOURCE)
    return found


def _add_producer(given: Given, found: Entries) -> None:
    of_topic = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
    of_id = (AclOperation.WRITE, AclOperation.DESCRIBE)
    for pattern in _required_resources(given):
        if pattern.resource_type is AclResourceType.TOPIC:
            found[pattern] = _entries(given, of_topic)
        elif pattern.resource_type is AclResourceType.TRANSACTIONAL_ID:
            found[pattern] = _entries(given, of_id)
    if given.has("idempotent"):
        found[_CLUSTER] = _entries(given, (AclOperation.IDEMPOTENT_WRITE,))


def _add_consumer(given: Given, found: Entries) -> None:
    for pattern in _required_resources(given):
        if pattern.resource_type is AclResourceType.TOPIC:
            more = _entries(given, (AclOperation.READ, AclOperation.DESCRIBE))
        elif pattern.resource_type is AclResourceType.GROUP:
            more = _entries(given, (AclOperation.READ,))
        else:
            continue
        found[pattern] = {**found.get(pattern, {}), **more}


def _entries(given: Given, operations: Iterable[AclOperation]) -> dict[AccessControlEntry, None]:
    made: dict[AccessControlEntry, None] = {}
    wanted = list(operations)
    for word, permission in (("allow", AclPermissionType.ALLOW), ("deny", AclPermissionType.DENY)):
        hosts = [host.strip() for host in given.values(f"{word}-host")] or ["*"]
        for row in product(principals(given, f"{word}-principal"), hosts, wanted):
            made[AccessControlEntry(*row, permission)] = None
    return made


def _operation(text: str) -> AclOperation:
    """Return the operation of a name without underscores, in any case: `AlterConfigs`."""
    for operation in AclOperation:
        if text.upper() == operation.name.replace("_", ""):
            return operation
    return AclOperation.UNKNOWN


def _check_operations(
    given: Given, type_: AclResourceType, acls: Iterable[AccessControlEntry]
) -> None:
    supported = (*SUPPORTED_OPERATIONS[type_], AclOperation.ALL)
    if not {acl.operation for acl in acls} <= set(supported):
        names = ", ".join(operation.name for operation in supported)
        given.fail(f"ResourceType {type_.name} only supports operations [{names}]")
