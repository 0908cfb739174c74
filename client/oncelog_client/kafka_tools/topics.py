"""kafka-topics.sh: list, create, describe, alter and delete topics."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from oncelog_client.cli.options import run
from oncelog_client.kafka_tools import topic_changes, topic_descriptions, topic_names
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import ILLEGAL_ARGUMENT, JavaError, print_log
from oncelog_client.kafka_tools.options import Given, Option, Options
from oncelog_client.kafka_tools.topic_options import excluded_options

_DELETE_CONFIG: Final = (
    "delete-config option is no longer supported and deprecated since version 4.0. The config will "
    "be fully removed in future releases.\n"
)
_ONLY_ID: Final = (
    "Only topic id will be used when both --topic and --topic-id are specified and topicId is not "
    "Uuid.ZERO_UUID\n"
)

ACTIONS: Final = ("list", "describe", "create", "alter", "delete")

OPTIONS: Final = Options(
    "This tool helps to create, delete, describe, or change a topic.",
    [
        Option("alter", "Add partitions to topics."),
        Option("at-min-isr-partitions", "Describe partitions with just enough replicas in sync."),
        Option("bootstrap-server", "REQUIRED: a broker.", "String: server to connect to"),
        Option("command-config", "Client settings.", "String: command config property file"),
        Option("config", "A setting of the new topic.", "String: name=value"),
        Option("create", "Create a topic."),
        Option("delete", "Delete topics."),
        Option("delete-config", "Removed in Kafka 4.0.", "String: name"),
        Option("describe", "Print the topics and their partitions."),
        Option("exclude-internal", "Leave internal topics out."),
        Option("if-exists", "Do not fail without such a topic."),
        Option("if-not-exists", "Do not fail if the topic exists."),
        Option("list", "Print the names of the topics."),
        Option(
            "partition-size-limit-per-response",
            "Number of partitions in a response.",
            "Integer: maximum number of partitions per response",
        ),
        Option("partitions", "Number of partitions.", "Integer: # of partitions"),
        Option(
            "replica-assignment",
            "The brokers of each partition.",
            "String: broker_id_for_part1_replica1 : broker_id_for_part1_replica2 , "
            "broker_id_for_part2_replica1 : broker_id_for_part2_replica2 , ...",
        ),
        Option("replication-factor", "Replicas of a partition.", "Integer: replication factor"),
        Option("topic", "A topic, or except to create, a regular expression.", "String: topic"),
        Option("topic-id", "The id of a topic to describe.", "String: topic-id"),
        Option("topics-with-overrides", "Describe only topics with settings of their own."),
        Option("unavailable-partitions", "Describe only partitions without a leader."),
        Option("under-min-isr-partitions", "Describe partitions below min.insync.replicas."),
        Option("under-replicated-partitions", "Describe partitions that lack a replica."),
    ],
)


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    try:
        given = OPTIONS.parse(arguments)
        _check(given, arguments)
        settings = read_settings(given.value("command-config"))
    except JavaError as error:
        sys.stderr.write(f"{error.message}\n{error}\n")
        return 1
    try:
        run(_act(given, settings))
    except JavaError as error:
        sys.stdout.write(f"Error while executing topic command : {error.message}\n")
        print_log("ERROR", str(error), "org.apache.kafka.tools.TopicCommand")
        return 1
    return 0


def _check(given: Given, arguments: Sequence[str]) -> None:
    """Check the combination of the options, in the order of Kafka's tool."""
    if not arguments:
        given.fail("Create, delete, describe, or change a topic.")
    given.end_for_help_or_version()
    if sum(map(given.has, ACTIONS)) != 1:
        given.fail(
            "Command must include exactly one action: --list, --describe, --create, --alter or "
            "--delete"
        )
    if given.has("delete-config"):
        sys.stderr.write(_DELETE_CONFIG)
    if not given.has("bootstrap-server"):
        raise JavaError(ILLEGAL_ARGUMENT, "--bootstrap-server must be specified")
    has_topic = given.has("topic") or given.has("topic-id")
    if given.has("describe") and given.has("if-exists") and not has_topic:
        given.fail("--topic or --topic-id is required to describe a topic")
    if all(map(given.has, ("describe", "if-exists", "topic", "topic-id"))):
        sys.stdout.write(_ONLY_ID)
    if not given.has("list") and not given.has("describe"):
        given.require("topic")
    if given.has("alter"):
        given.require("partitions")
    for used, invalid in excluded_options(given):
        given.refuse_with(used, invalid)


async def _act(given: Given, settings: Mapping[str, Any]) -> None:
    action = next(filter(given.has, ACTIONS))
    first_call = "createTopics" if action == "create" else "listTopics"
    async with connected(given.value("bootstrap-server"), settings, first_call) as connection:
        await _ACTIONS[action](connection, given)


async def _list(connection: Connection, given: Given) -> None:
    names = await topic_names.matching(
        connection, given.value("topic"), exclude_internal=given.has("exclude-internal")
    )
    sys.stdout.write("\n".join(names) + "\n")


_ACTIONS: Final[dict[str, Callable[[Connection, Given], Awaitable[None]]]] = {
    "list": _list,
    "describe": topic_descriptions.describe,
    "create": topic_changes.create,
    "alter": topic_changes.alter,
    "delete": topic_changes.delete,
}
