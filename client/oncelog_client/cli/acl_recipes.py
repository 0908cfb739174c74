"""The options `--oncelog-source` and `--oncelog-sink` of `oncelog acls`: the rules for a query of
Spark, as `--consumer` and `--producer` of kafka-acls.sh are those for a client of Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from oncelog_client.cli.names import NAME
from oncelog_client.core.acl_bindings import AclOperation, ResourcePattern

if TYPE_CHECKING:
    from oncelog_client.spark.settings.rights import Right

F = TypeVar("F", bound=Callable[..., Any])
Grant = tuple[ResourcePattern, AclOperation]

_PROTOCOLS: Final = ("group", "record")
# The resources that an option takes from the command line. The option itself names all other
# resources.
_OF_SOURCE: Final = ("topic", "group")
_OF_SINK: Final = ("topic",)
_RESOURCES: Final = ("topic", "group", "transactional_id", "delegation_token", "user", "cluster")


class Recipe(NamedTuple):
    """The rules of a query. `optional`: sentences about rights that the query can do without."""

    grants: list[Grant]
    optional: list[str]


def recipe_options(command: F) -> F:
    """Add the options of recipes to a command."""
    for option in (
        click.option(
            "--sink-protocol",
            type=click.Choice(_PROTOCOLS),
            help="Its sinkProtocol; record for Apache Kafka.  [group]",
        ),
        click.option(
            "--oncelog-sink",
            type=NAME,
            metavar="SINK_ID",
            help="What Spark's sink with this sinkId needs for --topic.",
        ),
        click.option(
            "--oncelog-source",
            is_flag=True,
            help="What Spark's source needs for --topic and --group.",
        ),
    ):
        command = option(command)
    return command


def recipe(given: Mapping[str, Any], operations: Iterable[str], *, prefixed: bool) -> Recipe | None:
    """Return the recipe that the options choose, or None. Raises click.UsageError for options that
    do not fit together."""
    is_source, sink_id = given["oncelog_source"], given["oncelog_sink"]
    if given["sink_protocol"] and not sink_id:
        raise click.UsageError("--sink-protocol needs --oncelog-sink")
    if not is_source and not sink_id:
        return None
    name = "--oncelog-source" if is_source else "--oncelog-sink"
    if is_source and sink_id:
        raise click.UsageError("--oncelog-source and --oncelog-sink are for two commands")
    if tuple(operations):
        raise click.UsageError(f"{name} chooses the operations, so --operation must be left out")
    for resource in _RESOURCES:
        if given[resource] and resource not in (_OF_SOURCE if is_source else _OF_SINK):
            flag = f"--{resource.replace('_', '-')}"
            raise click.UsageError(f"{name} chooses the resources, so {flag} must be left out")
    if not given["topic"]:
        raise click.UsageError(f"{name} needs --topic")
    if is_source:
        return Recipe([_grant(right) for right in _source(given, prefixed=prefixed)], [])
    rights = _sink(given, prefixed=prefixed)
    return Recipe(
        [_grant(right) for right in rights if not right.is_optional],
        [f"{right}: {right.purpose}" for right in rights if right.is_optional],
    )


def _grant(right: Right) -> Grant:
    pattern = ResourcePattern(right.resource_type, right.name, right.pattern_type)
    return pattern, right.operation


def _source(given: Mapping[str, Any], *, prefixed: bool) -> list[Right]:
    from oncelog_client.spark.source.plan.source_rights import source_rights

    rights = list(source_rights(given["topic"], is_prefix=prefixed))
    for group in given["group"]:
        rights += source_rights((), group=group, is_prefix=prefixed)
    return rights


def _sink(given: Mapping[str, Any], *, prefixed: bool) -> tuple[Right, ...]:
    from oncelog_client.spark.sink.protocol.messages import CommitKind
    from oncelog_client.spark.sink.protocol.sink_rights import sink_rights

    kind = CommitKind(given["sink_protocol"] or _PROTOCOLS[0])
    return sink_rights(given["oncelog_sink"], given["topic"], kind, is_prefix=prefixed)
