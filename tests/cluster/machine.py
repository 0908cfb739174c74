"""Several brokers of one `oncelog serve --brokers` on this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from confluent_kafka.admin import AdminClient

from oncelog.testing.ports import reserve_ports
from tests.cluster.reading import metadata_of
from tests.harness.broker import Oncelog
from tests.harness.processes import children, command, is_alive
from tests.harness.waiting import wait_until

COUNT: Final = 3


class Machine(Oncelog):
    """COUNT brokers with ports that follow each other."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        super().__init__(
            directory,
            {"group.initial.rebalance.delay.ms": "0", "num.partitions": "3", **(settings or {})},
            preloaded=False,
        )
        self.port = reserve_ports(self, COUNT)
        self.run(COUNT)

    def run(self, count: int) -> None:
        """Let the next start run `count` brokers."""
        self.count = count
        self._arguments = ["--brokers", str(count)]

    def _address_arguments(self) -> list[str]:
        return ["--set", f"listeners=PLAINTEXT://{self.host}:{self.port}"]

    @property
    def addresses(self) -> str:
        return ",".join(f"{self.host}:{self.port + number}" for number in range(self.count))

    def pids(self) -> dict[int, int]:
        """Return the process of each broker by its id."""
        found: dict[int, int] = {}
        for child in children(self.pid):
            words = command(child)
            if "--member" in words:
                found[int(words[words.index("--member") + 1])] = child
        return found

    def start(self, timeout_s: float = 30.0) -> None:
        """Start the brokers. Return when all of them serve."""
        first = self.port
        super().start(timeout_s)
        self.port = first  # the first line may be another broker's
        wait_until(
            lambda: self.output.read_text().count("listening") == self.count, "all brokers serve"
        )

    def settled(self, admin: AdminClient, topic: str) -> None:
        """Return when all brokers are there and all partitions of the topic have leaders."""

        def are_led() -> bool:
            metadata = metadata_of(admin, topic)
            rows = metadata.topics[topic].partitions.values()
            is_known = len(metadata.brokers) == COUNT and len(rows) > 0
            return is_known and all(row.leader > 0 for row in rows)

        wait_until(are_led, "all partitions have leaders")


def exit_all(pids: Mapping[int, int]) -> None:
    """Return when the processes have ended."""
    wait_until(lambda: not any(map(is_alive, pids.values())), f"the end of {os.getpid()}'s brokers")
