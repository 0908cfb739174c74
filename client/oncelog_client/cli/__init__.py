"""The command line: `oncelog topics | produce | consume | groups | transactions | config`, and what
other packages add through the entry point group `oncelog.commands` (the broker adds `serve`).

Verbs and flags are those of Kafka's own tools. A command's module is imported when it is called, so
that `--help` is quick.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final, cast

import click

# command -> where it is, and what `--help` says of it without importing it
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "topics": ("topics:topics", "List, create, describe, alter and delete topics."),
    "produce": ("produce:produce", "Write the lines of standard input to a topic."),
    "consume": ("consume:consume", "Print the records of a topic."),
    "groups": ("groups:groups", "List and describe consumer groups, reset their offsets."),
    "transactions": ("transactions:transactions", "List and describe transactional ids."),
    "config": ("config:config", "Describe and alter the settings of topics and brokers."),
}
EXTENSIONS: Final = "oncelog.commands"
EXTENSION_HELP: Final[dict[str, str]] = {"serve": "Run a broker (oncelog[server])."}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*EXTENSION_HELP, *COMMANDS, *sorted(set(_extensions()) - set(EXTENSION_HELP))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            module, _, attribute = COMMANDS[cmd_name][0].partition(":")
            return cast(click.Command, getattr(import_module(f"{__name__}.{module}"), attribute))
        if cmd_name in EXTENSION_HELP or cmd_name in _extensions():
            return _extension(cmd_name)
        return None

    def invoke(self, ctx: click.Context) -> object:
        """Says what to install where a command needs more than the client does."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            raise click.ClickException(
                f"{missing.name} is not installed: pip install 'oncelog[server]'"
            ) from missing

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """As click's, but from the tables above: nothing is imported for a line of help."""
        texts = {name: text for name, (_, text) in COMMANDS.items()} | EXTENSION_HELP
        rows = [(name, texts.get(name, "")) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


def _extensions() -> dict[str, str]:
    """Commands of other installed packages: name -> `module:attribute`."""
    from importlib.metadata import entry_points

    return {point.name: point.value for point in entry_points(group=EXTENSIONS)}


def _extension(name: str) -> click.Command:
    from importlib.metadata import entry_points

    for point in entry_points(group=EXTENSIONS, name=name):
        return cast(click.Command, point.load())
    raise click.ClickException(f"{name} is not installed: pip install 'oncelog[server]'")


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="oncelog")
def oncelog() -> None:
    """The exactly-once log broker and its tools."""


def main() -> None:
    """The `oncelog` program. Exit codes: 0 done, 1 refused or failed, 2 wrong usage."""
    oncelog(prog_name="oncelog")
