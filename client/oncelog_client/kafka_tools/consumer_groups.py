"""kafka-consumer-groups.sh: lists, describes and deletes groups. The other actions run our own
command `oncelog groups`, which has the same flags."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

from oncelog_client.admin.group_descriptions import GroupDescription, GroupListing
from oncelog_client.admin.groups import delete_groups, describe_groups, list_groups
from oncelog_client.cli.connecting import ToolSettings
from oncelog_client.cli.names import INT32_MAX
from oncelog_client.cli.options import LONGEST_WAIT_S, run
from oncelog_client.errors import KafkaError
from oncelog_client.io.group_offsets import fetch_offsets
from oncelog_client.io.log_offsets import LATEST, list_offsets, without_leader
from oncelog_client.kafka_tools.connecting import Connection, connected, read_settings
from oncelog_client.kafka_tools.failures import JavaError, java_error, of_client
from oncelog_client.kafka_tools.group_options import ACTIONS, OPTIONS, check_options, words
from oncelog_client.kafka_tools.group_tables import (
    members_table,
    offsets_table,
    rows_of,
    state_table,
)
from oncelog_client.kafka_tools.options import Given, OptionError
from oncelog_client.kafka_tools.reset_values import command_words
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode

_DEAD: Final = "Dead"
# The beginning of the message of our parser -> the description of the same error in RE2/J.
_RE2J: Final = (
    ("a group that is not closed", "missing closing )"),
    ("nothing to repeat", "missing argument to repetition operator"),
    ("invalid nested repetition operator", "invalid nested repetition operator"),
    ("invalid range", "invalid character class range"),
    ("invalid escape", "invalid escape sequence"),
)
_WITHOUT_MEMBERS: Final = {
    "Empty": "\nConsumer group '{group}' has no active members.\n",
    "PreparingRebalance": "\nWarning: Consumer group '{group}' is rebalancing.\n",
    "CompletingRebalance": "\nWarning: Consumer group '{group}' is rebalancing.\n",
}


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    given = OPTIONS.parse(arguments)
    if not arguments:
        given.fail(OPTIONS.about)
    check_options(given)
    action = next(filter(given.has, ACTIONS))
    if action == "validate-regex":
        return _validate_regex(given.value("validate-regex") or "")
    try:
        timeout_ms = min(max(given.number("timeout") or 0, 0), INT32_MAX)
    except OptionError as error:
        _print_failure(error.message, str(error))
        return 0
    if action not in _ACTIONS:
        return _run_our_command(given, timeout_ms)
    settings = read_settings(given.value("command-config"))
    try:
        run(_act(given, settings, action, timeout_ms))
    except JavaError as error:
        _print_failure(str(error), f"java.util.concurrent.ExecutionException: {error}")
    return 0


def _print_failure(reason: str, exception: str) -> None:
    """Print a failure as Kafka's tool does, which ends with exit code 0 then."""
    sys.stdout.write(f"\nError: Executing consumer group command failed due to {reason}\n")
    sys.stderr.write(f"{exception}\n")


def _validate_regex(regex: str) -> int:
    """Print whether the broker understands an expression of a subscription (KIP-848)."""
    from oncelog_protocol.pattern import Pattern, PatternError

    try:
        Pattern(regex)
    except PatternError as error:
        reason = next((text for ours, text in _RE2J if str(error).startswith(ours)), str(error))
        sys.stdout.write(f"The regular expression `{regex}` is invalid: {reason}.\n")
    else:
        sys.stdout.write(f"The regular expression `{regex}` is valid.\n")
    return 0


def _run_our_command(given: Given, timeout_ms: int) -> int:
    from oncelog_client.cli import oncelog

    try:
        words = command_words(given)
    except JavaError as error:
        _print_failure(error.message, str(error))
        return 0
    give_up_after_s = min(max(timeout_ms, 1) / 1000, LONGEST_WAIT_S)
    settings = ToolSettings(read_settings(given.value("command-config")))
    code = oncelog.main(
        ["groups", "--kafka-errors", "--give-up-after", f"{give_up_after_s}", *words],
        prog_name="oncelog", standalone_mode=False, obj=settings,
    )  # fmt: skip
    return code if isinstance(code, int) else 0


async def _act(given: Given, settings: Mapping[str, Any], action: str, timeout_ms: int) -> None:
    first_call = "listGroups" if given.has("all-groups") or action == "list" else "describeGroups"
    servers = given.value("bootstrap-server")
    async with connected(servers, settings, first_call, timeout_ms=timeout_ms) as connection:
        try:
            await _ACTIONS[action](connection, given)
        except KafkaError as error:
            raise of_client(error) from error


async def _list(connection: Connection, given: Given) -> None:
    states = words(given.value("state"))
    types = words(given.value("type"))
    groups = [
        group
        for group in await _listed(connection)
        if (not states or group.state.lower() in states)
        and (not types or group.type.lower() in types)
    ]
    columns = [name for name in ("type", "state") if given.has(name)]
    if not columns:
        sys.stdout.write("".join(f"{group.group_id}\n" for group in groups))
        return
    width = max(25, *(len(group.group_id) for group in groups)) if groups else 25
    lines = [("GROUP", {name: name.upper() for name in columns})]
    lines += [
        (group.group_id, {"state": group.state, "type": group.type.capitalize()})
        for group in groups
    ]
    for group_id, values in lines:
        cells = "".join(f" {values[name]:<20}" for name in columns)
        sys.stdout.write(f"{group_id:<{width}}{cells}\n")


async def _listed(connection: Connection) -> list[GroupListing]:
    groups = await list_groups(connection.cluster, (), connection.timeout_ms)
    return [group for group in groups if group.protocol_type in ("consumer", "")]


async def _wanted(connection: Connection, given: Given) -> list[str]:
    if given.has("all-groups"):
        return [group.group_id for group in await _listed(connection)]
    return list(dict.fromkeys(given.values("group")))


async def _describe(connection: Connection, given: Given) -> None:
    names = await _wanted(connection, given)
    described = await describe_groups(connection.cluster, names, connection.timeout_ms)
    for name, group in described.items():
        if group.state == _DEAD:
            raise java_error(ErrorCode.GROUP_ID_NOT_FOUND, f"Group {name} not found.")
    for group in described.values():
        sys.stderr.write(_WITHOUT_MEMBERS.get(group.state, "").format(group=group.group_id))
        table = await _table(connection, given, group)
        if table:
            sys.stdout.write(f"\n{table}")


async def _table(connection: Connection, given: Given, group: GroupDescription) -> str:
    if given.has("state"):
        return state_table(group)
    if given.has("members"):
        return members_table(group, verbose=given.has("verbose"))
    committed = await fetch_offsets(
        connection.cluster, group.group_id, None, connection.timeout_ms, require_stable=False
    )
    partitions = {*committed, *(place for member in group.members for place in member.assignment)}
    ends = await _ends(connection, partitions)
    offsets = {place: (row.offset, row.leader_epoch) for place, row in committed.items()}
    return offsets_table(
        group.group_id, rows_of(group, offsets, ends), verbose=given.has("verbose")
    )


async def _ends(
    connection: Connection, partitions: set[TopicPartition]
) -> dict[TopicPartition, int]:
    """Return the ends of the partitions. A partition without a leader has none
    (filterNoneLeaderPartitions)."""
    cluster, timeout_ms = connection.cluster, connection.timeout_ms
    led = partitions - await without_leader(cluster, partitions, timeout_ms)
    found = await list_offsets(
        cluster, dict.fromkeys(led, LATEST), timeout_ms, read_committed=False
    )
    return {place: row.offset for place, row in found.items()}


async def _delete(connection: Connection, given: Given) -> None:
    names = await _wanted(connection, given)
    deleted: list[str] = []
    failed: dict[str, JavaError] = {}
    for name in names:
        try:
            await delete_groups(connection.cluster, [name], connection.timeout_ms)
            deleted.append(name)
        except KafkaError as error:
            failed[name] = java_error(error.code)
    if not failed:
        shown = ", ".join(f"'{name}'" for name in deleted)
        sys.stdout.write(f"Deletion of requested consumer groups ({shown}) was successful.\n")
        return
    sys.stdout.write("\nError: Deletion of some consumer groups failed:\n")
    for name, failure in failed.items():
        sys.stdout.write(f"* Group '{name}' could not be deleted due to: {failure}\n")
    if deleted:
        shown = ", ".join(f"'{name}'" for name in deleted)
        sys.stdout.write(f"\nThese consumer groups were deleted successfully: {shown}\n")


_ACTIONS: Final[dict[str, Callable[[Connection, Given], Awaitable[None]]]] = {
    "list": _list,
    "describe": _describe,
    "delete": _delete,
}
