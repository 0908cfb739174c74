"""A real broker on a disk that has no space for some kinds of files."""

from __future__ import annotations

import urllib.request
from pathlib import Path

from tests.harness.broker import Oncelog
from tests.harness.driving import events

OFFLINE = "kafka_server_replicamanager_offlinereplicacount"
SETTINGS = {"oncelog.metrics.port": "0", "oncelog.metrics.host": "127.0.0.1"}


class FullFor:
    """The control file that makes the disk full for some files (ONCELOG_FULL_FOR). `fill` takes
    regular expressions that match paths below the data directory."""

    def __init__(self, control: Path) -> None:
        self._control = control

    def fill(self, *patterns: str) -> None:
        written = self._control.with_suffix(".new")
        written.write_text("\n".join(patterns))
        written.rename(self._control)

    def free(self) -> None:
        self._control.unlink(missing_ok=True)


def broker_with_full_disk(directory: Path, settings: dict[str, str]) -> tuple[Oncelog, FullFor]:
    """Return a broker and its disk. The broker is not started."""
    control = directory / "full"
    broker = Oncelog(
        directory,
        settings | SETTINGS,
        environment={"ONCELOG_FULL_FOR": str(control)},
        arguments=["--allow-faults"],
    )
    return broker, FullFor(control)


def offline_count(broker: Oncelog) -> int:
    """Return the number of offline partitions in /metrics."""
    address = metrics_address(broker)
    with urllib.request.urlopen(f"http://{address}/metrics", timeout=10) as response:
        page = response.read().decode()
    (line,) = [splitline for splitline in page.splitlines() if splitline.startswith(f"{OFFLINE} ")]
    return int(float(line.split()[1]))


def metrics_address(broker: Oncelog) -> str:
    """Return the address of /metrics of this broker process."""
    return str([event["address"] for event in events(broker) if event["event"] == "metrics"][-1])


def refused(broker: Oncelog, partition: str) -> list[dict[str, object]]:
    return [
        event for event in events(broker)
        if event["event"] == "disk refused" and event.get("partition") == partition
    ]  # fmt: skip


def healed(broker: Oncelog, partition: str) -> list[dict[str, object]]:
    return [
        event for event in events(broker)
        if event["event"] == "disk takes it again" and event.get("partition") == partition
    ]  # fmt: skip
