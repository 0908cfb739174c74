"""Base classes of the commands. Their help fits one screen, with examples, and common options at
the end. Their errors suggest a correction of a mistyped word."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

import click
from click.core import ParameterSource

# The parameters of options.connection_options and output.output_option.
SHARED: Final = frozenset({"bootstrap_server", "command_config", "give_up_after", "output"})
# Columns of help for the names of options. A longer name has a line of its own.
_NAMES_WIDTH: Final = 21
# Verbs of other tools -> the flag that means the same here.
_SYNONYMS: Final = {"set": "--alter", "show": "--describe", "get": "--describe"}
_RANGE: Final = r"  \[[^\[\]]*x[^\[\]]*\]$"


class Tool(click.Command):
    """A command with `examples`: command lines without the leading `oncelog`. `name_option` is the
    option that an error suggests for a name without a flag."""

    def __init__(
        self,
        *args: Any,
        examples: Sequence[str] = (),
        name_option: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.examples = tuple(examples)
        self.name_option = name_option

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click does. If a word lacks its flag, such as a verb without dashes, the error
        suggests the corrected call."""
        words = list(args)
        try:
            return super().parse_args(ctx, args)
        except click.UsageError as error:
            hint = self._hint(ctx, words, error)
            if not hint:
                raise
            raise click.UsageError(f"{error.message}. {hint}", ctx) from None

    def _hint(self, ctx: click.Context, words: Sequence[str], error: click.UsageError) -> str:
        """Return the question `Did you mean …?` with the likely call, in which each word has its
        flag. Return an empty string if there is no likely call."""
        if isinstance(error, click.BadParameter | click.NoSuchOption):
            return ""
        options = [
            param for param in self.params if isinstance(param, click.Option) and not param.hidden
        ]
        flags = [name for option in options if option.is_flag for name in option.opts]
        valued = [name for option in options if not option.is_flag for name in option.opts]
        try:
            _, extra, _ = self.make_parser(ctx).parse_args(list(words))
        except click.UsageError:
            return ""
        given = list(words)
        for word in extra:
            given.remove(word)
        verb = next((word for word in extra if _flag_of(word, flags)), None)
        call = [] if verb is None else [_flag_of(verb, flags)]
        call += [word for word in given if word in flags]
        given = [word for word in given if word not in flags]
        for word in extra:
            option = "--add-config" if "=" in word else self.name_option
            # In `config topic orders`, `topic` is the type of the entity `orders`.
            is_kind = f"--{word}" in valued and len(extra) > 1
            if word != verb and not is_kind and option in valued and option not in (*call, *given):
                call += [option, word]
        if not extra or len(call) + len(given) == len(words) - len(extra):
            return ""  # no word got a flag
        from shlex import join

        return f"Did you mean `{join([*ctx.command_path.split(), *call, *given])}`?"

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the command's own options, then the common options."""
        own: list[tuple[str, str]] = []
        shared: list[tuple[str, str]] = []
        for parameter in self.get_params(ctx):
            if isinstance(parameter, click.Argument):
                continue  # the usage line shows it
            record = parameter.get_help_record(ctx)
            if record is not None:
                name, text = record
                # The limits of a number, which click appends, are of no use to a reader.
                line = name, re.sub(_RANGE, "", text)
                (shared if parameter.name in SHARED else own).append(line)
        if self.examples:
            with formatter.section("Examples"):
                for example in self.examples:
                    formatter.write(f"{' ' * formatter.current_indent}oncelog {example}\n")
        if own:
            with formatter.section("Options"):
                formatter.write_dl(own, col_max=_NAMES_WIDTH)
        if shared:
            with formatter.section("Connection and output"):
                formatter.write_dl(shared, col_max=_NAMES_WIDTH)


class ToolGroup(Tool, click.Group):
    """A command with verbs. `elsewhere` maps a word that is not a verb of this command to the
    command line that does the work."""

    command_class = Tool

    def __init__(
        self, *args: Any, elsewhere: Mapping[str, str] | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        self.elsewhere = dict(elsewhere or {})

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, then the common options."""
        self.format_commands(ctx, formatter)
        Tool.format_options(self, ctx, formatter)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs, each with the complete first sentence of its help."""
        with formatter.section("Commands"):
            formatter.write_dl(list(self.texts(ctx).items()))

    def texts(self, ctx: click.Context) -> dict[str, str]:
        """Return the line in `--help` of each verb that is shown."""
        return help_lines({name: self.get_command(ctx, name) for name in self.list_commands(ctx)})

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse as click's groups do. An `--output` before the verb sets the default of the verb's
        own `--output`."""
        rest = click.Group.parse_args(self, ctx, args)
        if ctx.get_parameter_source("output") is ParameterSource.COMMANDLINE:
            before = {"output": ctx.params["output"]}
            ctx.default_map = dict.fromkeys(self.list_commands(ctx), before)
        return rest

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolve as click does. For a verb in `elsewhere`, raise click.UsageError that names the
        right command."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            instead = self.elsewhere.get(args[0])
            if instead is None:
                raise
            message = f"No such command {args[0]!r}. Use `oncelog {instead}`"
            raise click.UsageError(message, ctx) from error


def help_lines(verbs: Mapping[str, click.Command | None]) -> dict[str, str]:
    """Return the first sentence of the help of each verb that is not hidden."""
    return {
        name: _first_sentence(verb.help or "")
        for name, verb in verbs.items()
        if verb and not verb.hidden
    }


def _first_sentence(text: str) -> str:
    """Return the text up to the end of its first sentence or paragraph, on one line."""
    paragraph = " ".join(text.strip().split("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def _flag_of(word: str, flags: Sequence[str]) -> str:
    """Return the flag for a word, or an empty string."""
    from difflib import get_close_matches

    known = {flag.removeprefix("--"): flag for flag in flags}
    known |= {other: flag for other, flag in _SYNONYMS.items() if flag in flags}
    near = get_close_matches(word, known, n=1)
    return known[near[0]] if near else ""


def suggestion(word: str, known: Sequence[str]) -> str:
    """Return ` Did you mean …?` for the nearest of the known words, or an empty string."""
    from difflib import get_close_matches

    near = get_close_matches(word, known, n=1)
    return f" Did you mean {near[0]!r}?" if near else ""
