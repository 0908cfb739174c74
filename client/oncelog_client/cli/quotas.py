"""`oncelog quotas VERB`: the limits of clients by user, client id or address."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import click

from oncelog_client.admin import Admin, ClientQuotaEntity, ClientQuotaFilter
from oncelog_client.admin.quota_descriptions import DEFAULT_NAME
from oncelog_client.cli.commands import ToolGroup
from oncelog_client.cli.connecting import ask
from oncelog_client.cli.names import NAME
from oncelog_client.cli.options import connection_options, output_option, split_config
from oncelog_client.cli.output import Column, show

F = TypeVar("F", bound=Callable[..., Any])

ENTITY_COLUMNS: Final = (
    Column("User", "id"),
    Column("Client-id", "id"),
    Column("Ip", "id"),
    Column("Quota", "id"),
)
COLUMNS: Final = (*ENTITY_COLUMNS, Column("Limit"))
ALTERED_COLUMNS: Final = (*ENTITY_COLUMNS, Column("Old limit"), Column("Limit"))
# The name of a default entity in tables, in filters and in the options of Kafka's tools.
DEFAULT_TEXT: Final = "<default>"


def entity_options(command: F) -> F:
    """Add the options that name an entity. Each type of entity has an option for a name and an
    option for the default."""
    for name, default, about in (
        ("ip", "ip", "addresses without one of their own"),
        ("client-id", "client", "client ids without one of their own"),
        ("user", "user", "users without one of their own"),
    ):
        parameter = name.replace("-", "_")
        command = click.option(
            f"--{default}-defaults",
            f"{parameter}_defaults",
            is_flag=True,
            help=f"The quota of {about}.",
        )(command)
        command = click.option(
            f"--{name}", type=NAME, metavar="NAME", help=f"The {name} of the clients."
        )(command)
    return command


def _names(flags: dict[str, Any]) -> tuple[str | None, str | None, str | None]:
    """Return the user, the client id and the address that the options name."""
    user, client_id, ip = (_name(flags, part) for part in ("user", "client_id", "ip"))
    return user, client_id, ip


def _name(flags: dict[str, Any], part: str) -> str | None:
    name: str | None = flags[part]
    if not flags[f"{part}_defaults"]:
        return name
    if name is not None:
        raise click.UsageError(f"--{part.replace('_', '-')} excludes its default")
    return DEFAULT_NAME


@click.group(
    cls=ToolGroup,
    examples=[
        "quotas list",
        "quotas set --user alice producer_byte_rate=1048576",
        "quotas remove --user alice producer_byte_rate",
    ],
    elsewhere={
        **dict.fromkeys(("add", "alter", "create"), "quotas set --user NAME QUOTA=LIMIT"),
        **dict.fromkeys(("delete", "unset"), "quotas remove --user NAME QUOTA"),
        **dict.fromkeys(("describe", "show"), "quotas list"),
    },
)
@connection_options
@output_option
def quotas(**_: object) -> None:
    """Show, set and remove the quotas of clients."""


@quotas.command("list", examples=["quotas list", "quotas list --user alice", "quotas list --json"])
@connection_options
@entity_options
@output_option
def list_(*, output: str, **flags: Any) -> None:
    """Print the quotas. Options limit the list to the entities with this user, client id or
    address."""
    chosen = ClientQuotaFilter(*_names(flags))
    found = ask(lambda admin: _described(admin, chosen))
    rows = [
        (*_shown(entity), name, limit)
        for entity, limits in sorted(found.items(), key=lambda item: _sorted_by(item[0]))
        for name, limit in sorted(limits.items())
    ]
    show(COLUMNS, rows, output=output, empty="no quotas")


@quotas.command(
    "set",
    examples=[
        "quotas set --user alice producer_byte_rate=1048576 consumer_byte_rate=2097152",
        "quotas set --user-defaults --client-id import request_percentage=50",
        "quotas set --ip-defaults connection_creation_rate=10",
    ],
)
@connection_options
@entity_options
@click.argument("limits", metavar="QUOTA=LIMIT...", nargs=-1, required=True)
@output_option
def set_(*, limits: tuple[str, ...], output: str, **flags: Any) -> None:
    """Set quotas of a user, a client id, both, or an address.

    producer_byte_rate and consumer_byte_rate are bytes a second, request_percentage is a share of
    the time of a broker's event loop, controller_mutation_rate is partitions created or deleted a
    second, connection_creation_rate (of an address) is connections a second.
    """
    _alter(flags, {name: _limit(text) for name, text in map(split_config, limits)}, output)


@quotas.command(
    examples=["quotas remove --user alice producer_byte_rate", "quotas remove --user alice"]
)
@connection_options
@entity_options
@click.argument("names", metavar="[QUOTA]...", nargs=-1)
@output_option
def remove(*, names: tuple[str, ...], output: str, **flags: Any) -> None:
    """Remove the named quotas of an entity, or all of its quotas."""
    _alter(flags, dict.fromkeys(names), output)


def _alter(flags: dict[str, Any], changes: dict[str, float | None], output: str) -> None:
    """Make the changes and print each quota with its old and its new limit. Without changes, remove
    all quotas of the entity."""
    entity = ClientQuotaEntity(*_names(flags))
    if entity == ClientQuotaEntity():
        raise click.UsageError("name an entity: --user, --client-id, --ip or their defaults")
    exactly = ClientQuotaFilter(*entity, is_strict=True)

    async def call(admin: Admin) -> list[tuple[Any, ...]]:
        old = (await _described(admin, exactly)).get(entity, {})
        wanted = changes or dict.fromkeys(old)
        if wanted:
            await admin.alter_client_quotas({entity: wanted})
        return [
            (*_shown(entity), name, old.get(name), limit)
            for name, limit in wanted.items()
            if limit is not None or name in old
        ]

    show(ALTERED_COLUMNS, ask(call), output=output, empty="nothing to remove")


async def _described(
    admin: Admin, chosen: ClientQuotaFilter
) -> dict[ClientQuotaEntity, dict[str, float]]:
    return await admin.describe_client_quotas(chosen)


def _limit(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise click.UsageError(f"the limit {text!r} is not a number") from None


def _shown(entity: ClientQuotaEntity) -> tuple[str | None, ...]:
    return tuple(DEFAULT_TEXT if name == DEFAULT_NAME else name for name in entity)


def _sorted_by(entity: ClientQuotaEntity) -> tuple[str, ...]:
    """Return the key of an entity. In each part, entities without the part come first, then the
    default, then names."""
    return tuple("" if name is None else f"\0{name}" for name in entity)
