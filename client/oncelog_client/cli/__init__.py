"""The command line `oncelog`: the commands in COMMANDS, the broker's commands in KNOWN_EXTENSIONS,
and commands that other packages add through the entry point group `oncelog.commands`. The broker's
commands are listed here, because a search for entry points would slow every start down.

`topics`, `produce`, `consume`, `groups`, `transactions` and `config` have the flags of Kafka's
tools. A command's module is imported when the command is called, so that `--help` is quick.
"""

from __future__ import annotations

import errno
import gc
import os
import sys
from importlib import import_module
from typing import Any, Final, cast

import click

from oncelog_client.cli.failures import TRACEBACK_VARIABLE, OutputClosed, exit_code_of
from oncelog_client.process import unwind_when_interrupted
from oncelog_protocol import __version__

# command -> its module, and its line in `--help`, so that help imports no module
COMMANDS: Final[dict[str, tuple[str, str]]] = {
    "topics": ("topics:topics", "List, create, describe, alter and delete topics."),
    "produce": ("produce:produce", "Write the lines of standard input to a topic."),
    "consume": ("consume:consume", "Print the records of a topic."),
    "groups": ("groups:groups", "List and describe consumer groups, reset their offsets."),
    "transactions": ("transactions:transactions", "List, describe and abort transactions."),
    "config": ("config:config", "Describe and alter the settings of topics and brokers."),
    "topic": ("topic:topic", "Create, show, trim and delete topics (topic create orders)."),
    "group": ("group:group", "Show groups and their lag, move their offsets."),
    "txn": ("txn:txn", "List, describe and abort transactions."),
    "users": ("users:users", "List, add and remove the users that log in with SCRAM."),
    "acls": ("acls:acls", "List, add and remove access rules, explain a decision."),
    "quotas": ("quotas:quotas", "Show, set and remove the quotas of clients."),
    "cluster": ("cluster:cluster", "Show the brokers and the health of a cluster."),
    "health": ("health:health", "Check that a broker responds, without a login."),
    "doctor": ("doctor:doctor", "Find what is wrong here and in the cluster."),
    "completion": ("completion:completion", "Print a completion script for a shell."),
}
# `--help` lists these commands, which have the flags of Kafka's tools, in a section of their own.
KAFKAS: Final = frozenset({"topics", "groups", "transactions", "config"})
BROKER: Final = "oncelog_server"
# The script of `oncelog completion` sets this variable.
COMPLETION_VARIABLE: Final = "_ONCELOG_COMPLETE"
KNOWN_EXTENSIONS: Final[dict[str, tuple[str, str]]] = {
    "serve": ("oncelog_server.serve:serve", "Run a broker."),
    "dev": ("oncelog_server.dev:dev", "Run a temporary broker, which leaves no files."),
    "logs": ("oncelog_server.offline.commands:logs", "Print and check the files of logs."),
    "storage": (
        "oncelog_server.migration.commands:storage",
        "Recover or back up metadata, import data of Apache Kafka.",
    ),
}


class LazyGroup(click.Group):
    """A group that imports a command only when it is called. It turns every exception of a command
    into a message and an exit code (failures.py)."""

    def main(
        self,
        args: Any = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        windows_expand_args: bool = True,
        **extra: Any,
    ) -> Any:
        """Run a command line and exit with its code. Without `standalone_mode`, return the
        command's value instead."""

        def call() -> Any:
            return super(LazyGroup, self).main(
                args,
                prog_name,
                complete_var,
                standalone_mode=False,
                windows_expand_args=windows_expand_args,
                **extra,
            )

        if not standalone_mode:
            return call()
        sys.exit(exit_code_of(call))

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*KNOWN_EXTENSIONS, *COMMANDS, *sorted(set(_extensions()) - set(KNOWN_EXTENSIONS))]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return the command, or None if there is no such command. If a shell completes a line,
        attach the completion of names from the broker."""
        command = self._get_command(cmd_name)
        collect_from_now()
        if command is not None and COMPLETION_VARIABLE in os.environ:
            from oncelog_client.cli.completion import attach

            attach(command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[Any]:
        """Complete the names of commands. No command is imported."""
        from click.shell_completion import CompletionItem

        texts = {name: text for name, (_, text) in (COMMANDS | KNOWN_EXTENSIONS).items()}
        names = [name for name in self.list_commands(ctx) if name.startswith(incomplete)]
        found = [CompletionItem(name, help=texts.get(name)) for name in names]
        return [*found, *click.Command.shell_complete(self, ctx, incomplete)]

    def _get_command(self, cmd_name: str) -> click.Command | None:
        if cmd_name in COMMANDS:
            from oncelog_client.cli.event_loop import import_asyncio

            # A shell that completes a line gives its words in the environment.
            words = os.environ.get("COMP_WORDS", "").split()
            import_asyncio([*sys.argv[1:], *words])
            return _command(f"{__name__}.{COMMANDS[cmd_name][0]}")
        if cmd_name in KNOWN_EXTENSIONS:
            place: str | None = KNOWN_EXTENSIONS[cmd_name][0]
        else:
            place = _extensions().get(cmd_name)
        command = None if place is None else _command(place)
        # A broker has files to close after Ctrl-C. Commands of other packages may have such files
        # too.
        unwind_when_interrupted()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does. Raises click.UsageError with the nearest name for a command that
        does not exist."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            if not args or "Did you mean" in error.message:
                raise
            from oncelog_client.cli.commands import suggestion

            near = suggestion(args[0], self.list_commands(ctx))
            raise click.UsageError(error.message + near, ctx) from None

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. If a package is missing, raises ClickException that names the package to
        install."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as missing:
            raise click.ClickException(_what_to_install(missing.name or "")) from missing
        except OSError as error:
            # click would handle this OSError itself. It leaves OutputClosed to failures.py.
            if error.errno == errno.EPIPE and error.filename is None:
                raise OutputClosed from error
            raise

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands. The texts come from the tables above, so that no command is
        imported."""
        texts = {name: text for name, (_, text) in (COMMANDS | KNOWN_EXTENSIONS).items()}
        names = self.list_commands(ctx)
        with formatter.section("Commands"):
            formatter.write_dl([(n, texts.get(n, "")) for n in names if n not in KAFKAS])
        with formatter.section("The same with the flags of Kafka's tools (topics --create)"):
            formatter.write_dl([(n, texts[n]) for n in names if n in KAFKAS])


def _what_to_install(missing: str) -> str:
    """Return the advice for a command that imports the missing package: a command for pip."""
    if missing.partition(".")[0] == BROKER:
        return (
            "this is oncelog-client, which has no broker. To get one, install oncelog in its place:"
            " pip uninstall oncelog-client && pip install oncelog"
        )
    return f"the package {missing} is missing: pip install --force-reinstall oncelog"


def _extensions() -> dict[str, str]:
    """Return the commands of other installed packages: name -> `module:attribute`."""
    from oncelog_client.cli.extensions import extensions

    return extensions(KNOWN_EXTENSIONS)


def collect_from_now() -> None:
    """Turn the garbage collector on if the program has turned it off. The objects that exist now
    are nearly all modules, which stay as long as the process. They are frozen, so that no
    collection examines them."""
    if not gc.isenabled():
        gc.freeze()
        gc.enable()


def _command(place: str) -> click.Command:
    """Return the command at `module:attribute`."""
    module, _, attribute = place.partition(":")
    return cast(click.Command, getattr(import_module(module), attribute))


def _debug(_: click.Context, __: click.Parameter, wanted: bool) -> None:
    if wanted:
        os.environ[TRACEBACK_VARIABLE] = "1"


@click.group(cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__)
@click.option(
    "--debug",
    is_flag=True,
    expose_value=False,
    callback=_debug,
    help=f"Show the traceback of a failure, as {TRACEBACK_VARIABLE}=1 does.",
)
def oncelog() -> None:
    """The exactly-once log broker and its tools."""


def main() -> None:
    """Run the `oncelog` program. Exit codes: 0 done, 1 refused or failed, 2 wrong usage, 3
    `acls explain` of a denied operation, 130 interrupted."""
    oncelog(prog_name="oncelog")
