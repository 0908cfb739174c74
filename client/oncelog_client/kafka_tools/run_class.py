"""kafka-run-class.sh: a tool by the name of its Java class, as older scripts call it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

from oncelog_client.kafka_tools.tools import run_tool

# The last part of a class name -> the tool. The package of most classes has changed over the years.
_TOOLS: Final = {
    "AclCommand": "kafka-acls.sh",
    "BrokerApiVersionsCommand": "kafka-broker-api-versions.sh",
    "ClusterTool": "kafka-cluster.sh",
    "ConfigCommand": "kafka-configs.sh",
    "ConsoleConsumer": "kafka-console-consumer.sh",
    "ConsoleProducer": "kafka-console-producer.sh",
    "ConsumerGroupCommand": "kafka-consumer-groups.sh",
    "DeleteRecordsCommand": "kafka-delete-records.sh",
    "DumpLogSegments": "kafka-dump-log.sh",
    "GetOffsetShell": "kafka-get-offsets.sh",
    "LeaderElectionCommand": "kafka-leader-election.sh",
    "LogDirsCommand": "kafka-log-dirs.sh",
    "StorageTool": "kafka-storage.sh",
    "TopicCommand": "kafka-topics.sh",
    "TransactionsCommand": "kafka-transactions.sh",
}
_USAGE: Final = "USAGE: kafka-run-class.sh classname [opts]"


def main(arguments: Sequence[str]) -> int:
    """Run the tool and return its exit code."""
    if not arguments:
        sys.stdout.write(f"{_USAGE}\n")
        return 1
    name, *rest = arguments
    tool = _TOOLS.get(name.rpartition(".")[2])
    if tool is None:
        sys.stderr.write(
            f"Error: Could not find or load main class {name}\n"
            f"Caused by: java.lang.ClassNotFoundException: {name}\n"
        )
        return 1
    return run_tool([tool, *rest])
