"""A cluster of Apache Kafka nodes. Each node is a broker and a controller."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.node_folder import format_node

# Kafka's defaults, which a single node cannot have.
_REPLICATED: Final = {
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.replication.factor": "3",
    "transaction.state.log.replication.factor": "3",
    "transaction.state.log.min.isr": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
}


class _Node(Kafka):
    def __init__(
        self,
        directory: Path,
        node_id: int,
        settings: Mapping[str, str],
        jvm_options: Sequence[str] | None,
    ) -> None:
        super().__init__(directory, settings, jvm_options)
        self._node_id = node_id

    @property
    def controller(self) -> str:
        """Return the address of its controller."""
        return f"127.0.0.1:{self._controller_port}"

    def join(self, voters: Mapping[int, str]) -> None:
        """Take the controllers of the cluster, by node."""
        self._settings |= {
            "node.id": str(self._node_id),
            "controller.quorum.voters": ",".join(
                f"{node_id}@{address}" for node_id, address in voters.items()
            ),
        }

    def _format(self) -> None:
        format_node(self.data, self._node_id, is_controller=True)


class KafkaCluster:
    """Nodes 1 to `size`. `settings` and `jvm_options` are those of each node."""

    def __init__(
        self,
        directory: Path,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
        jvm_options: Sequence[str] | None = None,
    ) -> None:
        self.nodes = {
            node_id: _Node(
                directory / f"node-{node_id}",
                node_id,
                _REPLICATED | dict(settings or {}),
                jvm_options,
            )
            for node_id in range(1, size + 1)
        }
        voters = {node_id: node.controller for node_id, node in self.nodes.items()}
        for node in self.nodes.values():
            node.join(voters)

    def start(self) -> None:
        """Start all nodes. Return when each lists brokers."""
        with ThreadPoolExecutor(len(self.nodes)) as pool:
            for started in [pool.submit(node.start) for node in self.nodes.values()]:
                started.result()
