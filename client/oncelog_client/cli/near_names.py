"""`did you mean …?` for a topic, a group or a transactional id that does not exist."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

import click

from oncelog_client.admin import Admin
from oncelog_client.cli.commands import suggestion
from oncelog_client.cli.completion import source_of
from oncelog_client.cli.failures import Missing
from oncelog_client.errors import KafkaError


async def add_near_name(admin: Admin, error: KafkaError | Missing) -> None:
    """Append the nearest existing name to the message of `error`, for the first unknown name on the
    command line. If names cannot be listed, the message is unchanged."""
    with suppress(KafkaError):
        near = await _near(admin)
        if not near:
            return
        if isinstance(error, KafkaError):
            error.reword(f"{error.message}.{near}")
        else:
            error.near = f".{near}"


async def near_topic(admin: Admin, topic: str) -> str:
    """Return ` Did you mean …?` for the topic with the nearest name, or an empty string."""
    return suggestion(topic, list(await admin.list_topics()))


async def _near(admin: Admin) -> str:
    context: click.Context | None = click.get_current_context(silent=True)
    if context is None:
        return ""
    noun = "" if context.parent is None else context.parent.command.name or ""
    for parameter in context.command.params:
        source = source_of(parameter, noun)
        given = context.params.get(parameter.name or "")
        if source is None or not given:
            continue
        known = await source(admin)
        for name in _names(given):
            if name not in known:
                return suggestion(name, known)
    return ""


def _names(given: object) -> Iterable[str]:
    if isinstance(given, str):
        return [given]
    return [str(value) for value in given] if isinstance(given, Iterable) else []
