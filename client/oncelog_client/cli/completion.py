"""`oncelog completion`: a script for the shell, which completes verbs, options and the names that
the broker knows."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

import click
from click.shell_completion import CompletionItem, get_completion_class

from oncelog_client.cli.commands import Tool

VARIABLE: Final = "_ONCELOG_COMPLETE"
# Timeout for the broker. It is short, because the shell is blocked meanwhile.
TIMEOUT_S: Final = 0.7
SHELLS: Final = ("bash", "zsh", "fish")
DEFAULT_SERVER: Final = "localhost:9092"
# Names that need no quotes in any shell. Other names are not offered, because each shell quotes
# differently.
_PLAIN: Final = re.compile(r"[A-Za-z0-9._:/@%+,=-]+")


@click.command(
    cls=Tool,
    examples=[
        "completion bash > ~/.local/share/bash-completion/completions/oncelog",
        'completion zsh > "${fpath[1]}/_oncelog"',
        "completion fish > ~/.config/fish/completions/oncelog.fish",
    ],
)
@click.argument("shell", type=click.Choice(SHELLS))
def completion(shell: str) -> None:
    """Print a script that completes commands, options, topics, groups and transactional ids.

    Names come from the broker of --bootstrap-server or $ONCELOG_BOOTSTRAP_SERVER.
    For one session: source <(oncelog completion bash)
    """
    kind = get_completion_class(shell)
    assert kind is not None
    script = kind(click.Group("oncelog"), {}, "oncelog", VARIABLE)
    click.echo(kind.source_template % script.source_vars())


# -- names of the broker


async def _topics(admin: Any) -> list[str]:
    return list(await admin.list_topics(list_internal=True))


async def _groups(admin: Any) -> list[str]:
    return [found.group_id for found in await admin.list_groups()]


async def _ids(admin: Any) -> list[str]:
    return [found.transactional_id for found in await admin.list_transactions()]


Names = Callable[[Any], Awaitable[list[str]]]

# Name of a command's parameter -> the function that lists its possible values.
SOURCES: Final[dict[str, Names]] = {
    "topic": _topics,
    "topics": _topics,
    "topic_name": _topics,
    "groups": _groups,
    "named": _groups,
    "group": _groups,
    "to_group": _groups,
    "transactional_id": _ids,
    "id_": _ids,
}
# Noun of a command (`topic` in `topic describe NAME`) -> the function that lists the names.
BY_NOUN: Final[dict[str, Names]] = {"topic": _topics, "group": _groups}


def source_of(parameter: click.Parameter, noun: str) -> Names | None:
    """Return the function that lists the names for a parameter of a verb of `noun`. Return None for
    a parameter that is not a name of the broker."""
    if parameter.name == "name":
        return BY_NOUN.get(noun)
    is_flag = isinstance(parameter, click.Option) and parameter.is_flag
    return None if is_flag else SOURCES.get(parameter.name or "")


def attach(command: click.Command, noun: str = "") -> None:
    """Make the parameters of a command complete the names that the broker knows."""
    for parameter in command.params:
        source = source_of(parameter, noun)
        if source is not None:
            parameter._custom_shell_complete = _completer(source)
    if isinstance(command, click.Group):
        for verb in command.commands.values():
            attach(verb, command.name or "")


def _completer(
    source: Names,
) -> Callable[[click.Context, click.Parameter, str], list[CompletionItem]]:
    def complete(
        context: click.Context, _: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        # After an error the shell offers no completion, and the line is unchanged.
        with suppress(Exception):
            names = _asked(context, source)
            return [
                CompletionItem(name)
                for name in sorted(names)
                if name.startswith(incomplete) and _PLAIN.fullmatch(name)
            ]
        return []

    return complete


def _asked(context: click.Context, source: Names) -> list[str]:
    import asyncio
    import logging

    from oncelog_client.admin import Admin
    from oncelog_client.cli.options import read_properties

    # The client logs connection failures, which would appear in the user's line.
    logging.disable(logging.CRITICAL)
    settings = read_properties(_given(context, "command_config"))
    server = str(settings.pop("bootstrap_servers", ""))
    server = _given(context, "bootstrap_server") or server or DEFAULT_SERVER

    async def ask() -> list[str]:
        async with asyncio.timeout(TIMEOUT_S):
            admin = Admin(server, **settings)
            try:
                await admin.start(timeout_ms=TIMEOUT_S * 1000, fail_fast=True)
                return await source(admin)
            finally:
                await admin.close()

    return asyncio.run(ask())


def _given(context: click.Context | None, name: str) -> Any:
    """Return the value of an option from the innermost command on the line that has the option."""
    while context is not None:
        if context.params.get(name) is not None:
            return context.params[name]
        context = context.parent
    return None
