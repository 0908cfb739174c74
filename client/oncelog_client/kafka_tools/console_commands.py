"""Former names of options, and the call of our own command, for both console tools."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from oncelog_client.cli.options import setting_types
from oncelog_client.kafka_tools.connecting import read_settings
from oncelog_client.kafka_tools.options import Given


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


def config_of(given: Given, option: Renamed) -> list[str]:
    """Return the settings of a file as options of our command. Raises SettingsError."""
    path = given.value(option.former) or given.value(option.name)
    words: list[str] = []
    for name, value in read_settings(path).items():
        text = ",".join(value) if isinstance(value, list) else str(value)
        words += ["--command-property", f"{name.replace('_', '.')}={text}"]
    return words


def settings_of(given: Given, option: Renamed) -> list[str]:
    """Return the settings of the options as options of our command. Kafka's tools ignore a setting
    that the client does not have."""
    known = setting_types()
    words: list[str] = []
    for text in (*given.values(option.former), *given.values(option.name)):
        name, equals, _ = text.partition("=")
        if equals and name.strip().replace(".", "_") in known:
            words += ["--command-property", text]
    return words


def run_command(words: Sequence[str]) -> int:
    """Run a command of `oncelog`. It ends the process with its exit code."""
    from oncelog_client.cli import oncelog

    oncelog(list(words), prog_name="oncelog")
    return 0
