"""A second node for a cluster of Apache Kafka: a broker that is not a controller."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from tests.harness.kafka.kafka import Kafka
from tests.harness.kafka.node_folder import format_node

NODE_ID: Final = "2"


class SecondKafka(Kafka):
    """A broker of the cluster of `first`, which must run before this node starts."""

    def __init__(self, directory: Path, first: Kafka) -> None:
        super().__init__(directory)
        self._settings = first._settings | {
            "process.roles": "broker",
            "node.id": NODE_ID,
            "listeners": f"PLAINTEXT://{self.address}",
            "advertised.listeners": f"PLAINTEXT://{self.address}",
            "log.dirs": str(self.data),
        }

    def _format(self) -> None:
        format_node(self.data, int(NODE_ID), is_controller=False)
