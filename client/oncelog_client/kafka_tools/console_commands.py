"""Former names of options, and the call of our own command, for both console tools."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from oncelog_client.cli.options import dotted
from oncelog_client.errors import ConfigError
from oncelog_client.kafka_tools.client_conflicts import constructing
from oncelog_client.kafka_tools.connecting import CONFIG_ERROR, read_pairs
from oncelog_client.kafka_tools.options import Given

if TYPE_CHECKING:
    from _typeshed import DataclassInstance


class Renamed(NamedTuple):
    """An option with a former name, which Kafka 4 still takes."""

    former: str
    name: str

    @property
    def warning(self) -> str:
        """Return Kafka's words for the former name."""
        return (
            f"--{self.former} is deprecated and will be removed in a future version. "
            f"Use --{self.name} instead."
        )


def settings_of(
    given: Given,
    file: Renamed,
    option: Renamed,
    flags: Sequence[tuple[str, str]],
) -> list[tuple[str, str]]:
    """Return the settings of the file, the options and the flags. A later one overrides an earlier
    one. Raises SettingsError for a missing or invalid file."""
    pairs: list[tuple[str, str]] = [*read_pairs(given.value(file.former) or given.value(file.name))]
    for text in (*given.values(option.former), *given.values(option.name)):
        name, _, value = text.partition("=")
        pairs.append((name.strip(), value))
    return [*pairs, *flags]


def words_of(settings: Mapping[str, str]) -> list[str]:
    """Return settings as options of our command."""
    words: list[str] = []
    for name, value in settings.items():
        words += ["--command-property", f"{name}={value}"]
    return words


def properties_of(given: Given, option: Renamed, kind: type[DataclassInstance]) -> dict[str, str]:
    """Return the properties of a reader or a formatter, with values for our command, which takes a
    backslash for an escape. Kafka's classes ignore other properties."""
    known = {field.name for field in fields(kind)}
    pairs = (
        text.partition("=") for text in (*given.values(option.former), *given.values(option.name))
    )
    return {
        name: value.replace("\\", "\\\\")
        for name, _, value in pairs
        if name.replace(".", "_") in known
    }


def words_of_properties(properties: Mapping[str, str]) -> list[str]:
    """Return properties as options of our command."""
    words: list[str] = []
    for name, value in properties.items():
        words += ["--property", f"{name}={value}"]
    return words


def run_command(words: Sequence[str], client: str, obj: Any = None) -> int:
    """Run a command of `oncelog` and return its exit code. `client`: producer or consumer. `obj`:
    the object of click's context. Raises SettingsError for options that our command refuses."""
    from oncelog_client.cli import oncelog

    try:
        code = oncelog.main(list(words), prog_name="oncelog", standalone_mode=False, obj=obj)
    except click.UsageError as error:
        text = error.format_message()
    except ConfigError as error:
        text = dotted(error.message)
    else:
        return code if isinstance(code, int) else 0
    raise constructing(client, CONFIG_ERROR, text)
