"""The formatted data folder of a further node of an Apache Kafka cluster."""

from __future__ import annotations

import base64
import re
import uuid
from pathlib import Path
from typing import Final

from tests.harness.kafka.kafka import formatted_files

_META: Final = "meta.properties"


def format_node(data: Path, node_id: int, *, is_controller: bool) -> None:
    """Create the data folder from the files of a first node, which saves a run of Kafka's storage
    tool. Only the ids of node and folder differ. A controller has a metadata checkpoint too."""
    directory_id = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    meta = formatted_files()[_META].decode()
    meta = re.sub(r"(?m)^node\.id=.*", f"node.id={node_id}", meta)
    meta = re.sub(r"(?m)^directory\.id=.*", f"directory.id={directory_id}", meta)
    data.mkdir()
    if is_controller:
        for name, content in formatted_files().items():
            (data / name).write_bytes(content)
    (data / _META).write_text(meta)
