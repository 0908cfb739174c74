"""Sub-commands and arguments by the rules of argparse4j, the library of some of Kafka's tools.

argparse4j is a translation of an early version of Python's argparse. This module gives argparse the
messages and the exit code of argparse4j. argparse4j fills some lines with spaces, which this module
does not imitate.
"""

from __future__ import annotations

import argparse
import sys
from gettext import gettext
from typing import Any, Final, NoReturn

from oncelog_client.kafka_tools.failures import Ended

# The beginning of a message of argparse -> the beginning of argparse4j's.
_MISSING: Final = gettext("the following arguments are required: %s").partition("%s")[0]


class Arguments(argparse.ArgumentParser):
    """A parser of a tool or of a sub-command. It ends the tool (Ended) for a wrong command line and
    for `--help`, in both cases with exit code 1, as Kafka's tools do. Option names may not be
    abbreviated."""

    def __init__(self, prog: str, description: str | None = None, **settings: Any) -> None:
        super().__init__(prog=prog, description=description, allow_abbrev=False, **settings)

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parse as argparse does, but end the tool for an unknown argument of a sub-command."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            self.error(f"unrecognized arguments: '{unknown[0]}'")
        return found, unknown

    def exit(self, status: int = 0, message: str | None = None) -> NoReturn:
        """End the tool. argparse calls this method after `--help`."""
        raise Ended(1)

    def error(self, message: str) -> NoReturn:
        """Print the usage and the message, and end the tool. argparse calls this method."""
        self.print_usage(sys.stderr)
        sys.stderr.write(f"{self.prog.partition(' ')[0]}: error: {_message(message)}\n")
        raise Ended(1)


def _message(message: str) -> str:
    """Return argparse4j's message for a message of argparse."""
    if not message.startswith(_MISSING):
        return message.removeprefix("argument command: ")
    missing = message.removeprefix(_MISSING).split(", ")
    # A name without a dash is a sub-command. A missing sub-command is reported before a missing
    # option.
    if not all(name.startswith("-") for name in missing):
        return "too few arguments"
    return f"argument {missing[0]} is required"
