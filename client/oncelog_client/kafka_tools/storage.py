"""kafka-storage.sh: a random id of a cluster, and a data directory with its first users. Without
users, oncelog formats its data directory when it starts."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import Final

from oncelog_client.cli import oncelog
from oncelog_client.kafka_tools.sub_commands import Arguments
from oncelog_protocol.types import uuid_to_string

_NEEDLESS: Final = (
    "oncelog formats its data directory when it starts. kafka-storage.sh format changes nothing."
)
# The option of `format` for a user's credential (KIP-900)
_USER_OPTIONS: Final = ("--add-scram", "-S")
_NOT_BUILT: Final = ("info", "version-mapping", "feature-dependencies")


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    parser = Arguments("kafka-storage", "The Kafka storage tool.")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("info", help="Not available in oncelog.")
    commands.add_parser("format", help="Make a directory with the users of --add-scram.")
    commands.add_parser("version-mapping", help="Not available in oncelog.")
    commands.add_parser("feature-dependencies", help="Not available in oncelog.")
    commands.add_parser("random-uuid", help="Print a random id for a cluster.")
    command = parser.parse_args(arguments[:1]).command
    if command in _NOT_BUILT:
        sys.stderr.write(f"kafka-storage: oncelog has no {command}\n")
        return 1
    if command == "format" and any(word.startswith(_USER_OPTIONS) for word in arguments):
        oncelog(["storage", *arguments], prog_name="oncelog")
    # Without users, the arguments of `format` have no effect.
    sys.stdout.write(f"{_NEEDLESS if command == 'format' else random_uuid()}\n")
    return 0


def random_uuid() -> str:
    """Return a random id as Java's Uuid.randomUuid does: it never begins with a dash, which a
    command line would take for an option."""
    while (text := uuid_to_string(os.urandom(16))).startswith("-"):
        pass
    return text
