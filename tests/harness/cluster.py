"""A cluster of real broker processes on an etcd."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.harness.broker import OncelogByAddress
from tests.harness.etcd import Etcd

QUICK: Final = {
    "broker.session.timeout.ms": "2000",
    "broker.heartbeat.interval.ms": "500",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "100",
    "num.partitions": "3",
    "default.replication.factor": "3",
    "min.insync.replicas": "2",
    "offsets.topic.num.partitions": "3",
    "transaction.state.log.num.partitions": "3",
}


class Cluster:
    """Brokers 1 to `size`, as a context manager. They start at the same moment. `settings` are
    those of each broker."""

    def __init__(
        self,
        directory: Path,
        etcd: Etcd,
        size: int = 3,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        self.brokers = {
            broker_id: OncelogByAddress(
                directory / f"broker-{broker_id}",
                {
                    **QUICK,
                    "node.id": str(broker_id),
                    "oncelog.etcd.endpoints": ",".join(etcd.urls),
                    **(settings or {}),
                },
            )
            for broker_id in range(1, size + 1)
        }

    @property
    def address(self) -> str:
        """Return the bootstrap servers: all brokers."""
        return ",".join(broker.address for broker in self.brokers.values())

    def start(self) -> None:
        """Start all brokers. Return when all serve."""
        with ThreadPoolExecutor(len(self.brokers)) as pool:
            for started in [pool.submit(broker.start) for broker in self.brokers.values()]:
                started.result()

    def stop(self) -> None:
        """Stop the brokers that run, one after the other."""
        for broker in self.brokers.values():
            if broker.is_running:
                broker.stop()

    def said(self) -> str:
        """Return the end of the output of all brokers."""
        return "\n".join(f"--- {id_}\n{broker.said()}" for id_, broker in self.brokers.items())

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for broker in self.brokers.values():
            broker.kill()
