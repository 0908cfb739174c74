"""The tools by name. A tool's module is imported when the tool is called."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Final, cast

import click

from oncelog_client.cli.failures import exit_code_of
from oncelog_client.kafka_tools.failures import Ended, JavaError

# tool -> its module, which has a function `main(arguments) -> exit code`
TOOLS: Final[dict[str, str]] = {
    "kafka-acls.sh": "acls",
    "kafka-broker-api-versions.sh": "broker_api_versions",
    "kafka-cluster.sh": "cluster",
    "kafka-configs.sh": "configs",
    "kafka-console-consumer.sh": "console_consumer",
    "kafka-console-producer.sh": "console_producer",
    "kafka-consumer-groups.sh": "consumer_groups",
    "kafka-delete-records.sh": "delete_records",
    "kafka-get-offsets.sh": "get_offsets",
    "kafka-leader-election.sh": "leader_election",
    "kafka-log-dirs.sh": "log_dirs",
    "kafka-run-class.sh": "run_class",
    "kafka-storage.sh": "storage",
    "kafka-topics.sh": "topics",
    "kafka-transactions.sh": "transactions",
}
# A tool that our own command replaces, with the same flags and lines -> the words of the command
COMMANDS: Final[dict[str, tuple[str, ...]]] = {
    "kafka-dump-log.sh": ("logs", "dump"),
}


def main() -> None:
    """Run the tool that the first argument names, and exit with its code."""
    sys.exit(run_tool(sys.argv[1:]))


def run_tool(words: Sequence[str]) -> int:
    """Run a tool: its name and its arguments. Return its exit code."""
    name, *arguments = words or [""]
    name = name.rpartition("/")[2]
    if name in COMMANDS:
        from oncelog_client.cli import oncelog

        oncelog([*COMMANDS[name], *arguments], prog_name="oncelog")
    module = TOOLS.get(name)
    if module is None:
        known = " ".join(sorted({*TOOLS, *COMMANDS}))
        sys.stderr.write(f"{name}: oncelog has no such tool of Kafka. It has {known}\n")
        return 1
    return exit_code_of(lambda: _run(module, arguments))


def _run(module: str, arguments: Sequence[str]) -> int:
    from oncelog_client.cli.event_loop import import_asyncio

    import_asyncio(arguments)
    tool = import_module(f"{__package__}.{module}")
    try:
        return cast("Callable[[Sequence[str]], int]", tool.main)(arguments)
    except Ended as ended:
        return ended.status
    except click.UsageError as error:  # of our own command
        sys.stderr.write(f"{error.format_message()}\n")
        return 1
    except JavaError as error:
        # Java's text for an exception that no code handles.
        sys.stderr.write(f'Exception in thread "main" {error}\n')
        return 1
