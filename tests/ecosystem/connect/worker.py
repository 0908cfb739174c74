"""A worker of Kafka Connect in distributed mode, with exactly-once sources."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from oncelog.testing.ports import reserve_port
from tests.harness.kafka.java_program import JavaProgram
from tests.harness.waiting import wait_until

_SETTINGS = {
    "group.id": "connect",
    "config.storage.topic": "connect-configs",
    "offset.storage.topic": "connect-offsets",
    "status.storage.topic": "connect-status",
    "config.storage.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "offset.storage.partitions": "2",
    "status.storage.partitions": "1",
    "key.converter": "org.apache.kafka.connect.storage.StringConverter",
    "value.converter": "org.apache.kafka.connect.storage.StringConverter",
    "exactly.once.source.support": "enabled",
    "consumer.isolation.level": "read_committed",
    "offset.flush.interval.ms": "500",
    "plugin.discovery": "service_load",
    # The tasks of a killed worker move to another worker soon, but not while a killed Apache Kafka
    # restarts.
    "session.timeout.ms": "5000",
    "heartbeat.interval.ms": "500",
    "scheduled.rebalance.max.delay.ms": "0",
    "consumer.session.timeout.ms": "2000",
    "consumer.heartbeat.interval.ms": "300",
    "connector.client.config.override.policy": "All",
}
# The worker knows no such connector yet, rebalances, or has no coordinator.
_NOT_YET = {404, 409, 500, 503}
_CALL_TIMEOUT_S = 30.0
_START_TIMEOUT_S = 120.0


class Worker(JavaProgram):
    """A worker that runs the connectors in the folder `jars`. Its REST API listens on `url`.
    `settings` are added to those of the worker."""

    def __init__(
        self,
        folder: Path,
        name: str,
        address: str,
        jars: Path,
        settings: Mapping[str, str] | None = None,
    ) -> None:
        port = reserve_port(self)
        self.url = f"http://127.0.0.1:{port}"
        lines = {
            **_SETTINGS,
            "bootstrap.servers": address,
            "listeners": self.url,
            "client.id": name,
            **(settings or {}),
        }
        properties = folder / f"{name}.properties"
        properties.write_text("".join(f"{key}={value}\n" for key, value in lines.items()))
        super().__init__(
            folder / f"{name}.log",
            "org.apache.kafka.connect.cli.ConnectDistributed",
            [properties],
            jars=jars,
            options=["-Dorg.apache.logging.log4j.level=INFO"],
        )

    def create(self, connector: str, config: Mapping[str, str]) -> None:
        """Create or change a connector, once the worker is in the group."""

        def is_created() -> bool:
            self.check()
            return self._call("PUT", f"/connectors/{connector}/config", config) is not None

        wait_until(is_created, f"the connector {connector}", _START_TIMEOUT_S)

    def restart_failed(self, connector: str, expected: str) -> None:
        """Restart the connector's task if it has failed, as an operator of Connect does. A failure
        without the text `expected` fails the test. Do nothing while the worker starts."""
        status = self._call("GET", f"/connectors/{connector}/status")
        for task in status["tasks"] if status else []:
            if task["state"] == "FAILED":
                assert expected in task["trace"], task["trace"]
                self._call("POST", f"/connectors/{connector}/tasks/{task['id']}/restart")

    def _call(self, method: str, path: str, body: Mapping[str, str] | None = None) -> Any:
        """Return the decoded response, or None if the worker is not ready or knows no such path."""
        request = urllib.request.Request(
            self.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Content-Type": "application/json"},
            method=method,
        )
        try:
            with urllib.request.urlopen(request, timeout=_CALL_TIMEOUT_S) as response:
                return json.loads(response.read() or b"{}")
        except urllib.error.HTTPError as error:
            with error:
                if error.code not in _NOT_YET:
                    raise AssertionError(error.read().decode()) from error
            return None
        except OSError:
            return None
