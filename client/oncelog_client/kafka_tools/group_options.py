"""The options of kafka-consumer-groups.sh."""

from __future__ import annotations

import sys
from typing import Final

from oncelog_client.kafka_tools.java_text import split_text
from oncelog_client.kafka_tools.options import Given, Option, Options

ACTIONS: Final = (
    "list",
    "describe",
    "delete",
    "reset-offsets",
    "delete-offsets",
    "validate-regex",
)

# The options that say where offsets are moved, in the order of Kafka's checks.
_TARGETS: Final = (
    *("to-offset", "to-datetime", "by-duration", "to-earliest", "to-latest", "to-current"),
    *("shift-by", "from-file"),
)
# In the order in which Kafka's tool prints them.
TYPES: Final = ("Consumer", "Classic")
STATES: Final = (
    *("Reconciling", "Assigning", "PreparingRebalance", "CompletingRebalance", "Dead", "Empty"),
    "Stable",
)
# Option, Kafka's words for a wrong list and for the right words, and these.
_LISTS: Final = (("type", "types", "types", TYPES), ("state", "state", "states", STATES))
_DRY: Final = (
    "WARN: No action will be performed as the --execute option is missing. In version 5.0, this "
    "command will require either --dry-run or --execute to be specified. You should add the "
    "--dry-run option explicitly if you are scripting this command and want to keep the current "
    "default behavior without prompting.\n"
)

OPTIONS: Final = Options(
    "This tool helps to list all consumer groups, describe a consumer group, delete consumer group "
    "info, or reset consumer group offsets.",
    [
        Option("all-groups", "All groups."),
        Option("all-topics", "To reset: all topics of the group."),
        Option("bootstrap-server", "REQUIRED: a broker.", "String: server to connect to"),
        Option("by-duration", "To reset: an age, PnDTnHnMnS.", "String: duration"),
        Option("command-config", "Client settings.", "String: command config property file"),
        Option("delete", "Delete groups."),
        Option("delete-offsets", "Delete offsets of a group."),
        Option("describe", "Print the offsets and the lag of groups."),
        Option("dry-run", "To reset: change nothing."),
        Option("execute", "To reset: change the offsets."),
        Option("export", "To reset: print lines for --from-file."),
        Option("from-file", "To reset: a file of offsets.", "String: path to CSV file"),
        Option("group", "A group. May be repeated.", "String: consumer group"),
        Option("list", "Print the names of the groups."),
        Option("members", "To describe: the members.", available_if=("describe",)),
        Option(
            "offsets",
            "To describe: the offsets, as without this option.",
            available_if=("describe",),
        ),
        Option("reset-offsets", "Move the offsets of a group."),
        Option("shift-by", "To reset: a distance.", "Long: number-of-offsets"),
        Option(
            "state",
            "The states of the groups, or only these.",
            "String",
            is_optional=True,
            available_if=("describe", "list"),
        ),
        Option("timeout", "How long to wait.", "Long: timeout (ms)", default="30000"),
        Option("to-current", "To reset: the committed offsets."),
        Option("to-datetime", "To reset: a time.", "String: datetime"),
        Option("to-earliest", "To reset: the start of the log."),
        Option("to-latest", "To reset: the end of the log."),
        Option("to-offset", "To reset: an offset.", "Long: offset"),
        Option("topic", "A topic, or topic:0,1. May be repeated.", "String: topic"),
        Option(
            "type",
            "The types of the groups, or only these.",
            "String",
            is_optional=True,
            available_if=("list",),
        ),
        Option("validate-regex", "Check an expression.", "String: regex"),
        Option("verbose", "To describe: more columns.", available_if=("describe",)),
    ],
)


def check_options(given: Given) -> None:
    """End the tool for options that do not fit together, in the order of Kafka's checks
    (ConsumerGroupCommandOptions.checkArgs, and then ConsumerGroupCommand.main)."""
    given.end_for_help_or_version()
    if not given.has("validate-regex"):
        given.require("bootstrap-server")
    if given.has("describe"):
        _check_describe(given)
    if given.has("delete"):
        _require_groups(given, "delete")
        if given.has("topic"):
            given.fail(
                "The consumer does not support topic-specific offset deletion from a consumer "
                "group."
            )
    if given.has("delete-offsets") and not (given.has("group") and given.has("topic")):
        given.fail("Option [delete-offsets] takes the following options: [topic], [group]")
    if given.has("reset-offsets"):
        _check_reset(given)
    given.refuse_with("group", ["all-groups", "list"])
    given.refuse_with("topic", ["list", "describe"])
    if sum(map(given.has, ACTIONS)) != 1:
        given.fail(
            "Command must include exactly one action: --list, --describe, --delete, "
            "--reset-offsets, --delete-offsets, --validate-regex"
        )
    if given.has("reset-offsets"):
        _check_reset_range(given)
    if given.has("list"):
        _check_list(given)


def words(text: str | None) -> list[str]:
    """Return the words of a list that commas separate, in lower case. As in Java, empty words at
    the end are left out."""
    return [word.strip().lower() for word in split_text(text, ",")] if text else []


def _require_groups(given: Given, action: str) -> None:
    if not given.has("group") and not given.has("all-groups"):
        given.fail(f"Option [{action}] takes one of these options: [group], [all-groups]")


def _check_describe(given: Given) -> None:
    _require_groups(given, "describe")
    if sum(given.has(name) for name in ("members", "offsets", "state")) > 1:
        given.fail(
            "Option [describe] takes at most one of these options: [members], [offsets], [state]"
        )
    if given.value("state") is not None:
        given.fail("Option [describe] does not take a value for [state]")


def _check_list(given: Given) -> None:
    """End the tool for an unknown type or state. Kafka's tool looks at the types first."""
    for name, invalid, valid, known in _LISTS:
        text = given.value(name)
        if set(words(text)) - set(map(str.lower, known)):
            given.fail(f"Invalid {invalid} list '{text}'. Valid {valid} are: {', '.join(known)}")


def _check_reset(given: Given) -> None:
    if given.has("dry-run") and given.has("execute"):
        given.fail("Option [reset-offsets] only accepts one of [execute] and [dry-run]")
    if not given.has("dry-run") and not given.has("execute"):
        sys.stderr.write(_DRY)
    if not given.has("group") and not given.has("all-groups"):
        given.fail("Option [reset-offsets] takes one of these options: [all-groups], [group]")
    for at, name in enumerate(_TARGETS):
        given.refuse_with(name, _TARGETS[at + 1 :])


def _check_reset_range(given: Given) -> None:
    if not any(map(given.has, ("from-file", "all-topics", "topic"))):
        given.fail("One of the reset scopes should be defined: --all-topics, --topic.")
    if not any(map(given.has, _TARGETS)):
        names = ", ".join(f"[{name}]" for name in _TARGETS)
        given.fail(f"Option '[reset-offsets]' requires one of the following scenarios: [{names}]")
