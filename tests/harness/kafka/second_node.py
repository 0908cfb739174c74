"""A second node for a cluster of Apache Kafka: a broker that is not a controller."""

from __future__ import annotations

import base64
import re
import uuid
from pathlib import Path
from typing import Final

from tests.harness.kafka.kafka import Kafka, formatted_files

NODE_ID: Final = "2"
_META: Final = "meta.properties"


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
        """Create the data folder from the files of the first node, which saves a run of Kafka's
        storage tool. Only the ids of node and folder differ."""
        directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
        meta = formatted_files()[_META].decode()
        meta = re.sub(r"(?m)^node\.id=.*", f"node.id={NODE_ID}", meta)
        meta = re.sub(r"(?m)^directory\.id=.*", f"directory.id={directory_id}", meta)
        self.data.mkdir()
        (self.data / _META).write_text(meta)
