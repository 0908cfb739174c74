"""Apache Kafka's MirrorMaker 2 as its own process, in its dedicated mode with exactly once."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from functools import cache
from itertools import permutations
from pathlib import Path
from types import TracebackType

from tests.harness.kafka.jars import cache_directory, jars_of, java
from tests.harness.kafka.kafka import TEST_JVM_OPTIONS

STOP_TIMEOUT_S = 30.0

_POM = Path(__file__).with_name("mirror_maker.pom.xml")
# The intervals are one second. Most of their defaults are 1 or 10 minutes.
_SETTINGS = {
    "replication.factor": "1",
    "checkpoints.topic.replication.factor": "1",
    "heartbeats.topic.replication.factor": "1",
    "offset-syncs.topic.replication.factor": "1",
    "offset.storage.replication.factor": "1",
    "status.storage.replication.factor": "1",
    "config.storage.replication.factor": "1",
    "offset.storage.partitions": "1",
    "status.storage.partitions": "1",
    "offset.lag.max": "0",
    "sync.group.offsets.enabled": "true",
    "sync.group.offsets.interval.seconds": "1",
    "emit.checkpoints.interval.seconds": "1",
    "emit.heartbeats.interval.seconds": "1",
    "refresh.topics.interval.seconds": "1",
    "refresh.groups.interval.seconds": "1",
    "sync.topic.configs.interval.seconds": "1",
    "dedicated.mode.enable.internal.rest": "true",
    "listeners": "http://127.0.0.1:0",
    "plugin.discovery": "service_load",
}


@cache
def mirror_maker_jars() -> Path:
    """Return the folder of MirrorMaker's jars. Fetch them at first use. Raises KafkaUnavailable."""
    return jars_of(_POM, cache_directory() / "mirror-maker")


class MirrorMaker:
    """Copies along `flow`, from each named cluster to the next, while the context is open.

    `flow` has the address of each cluster by its name. `settings` are added to the properties.
    `log` gets the whole output. A test may kill and start the process.
    """

    def __init__(
        self, directory: Path, flow: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        self.log = directory / "mirror-maker.log"
        self._properties = directory / "mirror-maker.properties"
        self._settings = {**_SETTINGS, **_clusters(flow), **settings}
        self._process: subprocess.Popen[bytes] | None = None

    def said(self) -> list[str]:
        """Return the lines of MirrorMaker's log so far."""
        return self.log.read_text(errors="replace").splitlines()

    def start(self) -> None:
        self._properties.write_text(
            "".join(f"{name}={value}\n" for name, value in self._settings.items())
        )
        command = [java(), *TEST_JVM_OPTIONS, "-Dorg.apache.logging.log4j.level=INFO"]
        command += [
            "-cp",
            f"{mirror_maker_jars()}/*",
            "org.apache.kafka.connect.mirror.MirrorMaker",
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [*command, str(self._properties)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def kill(self) -> None:
        """Send SIGKILL. A regular end would wait for the connectors."""
        assert self._process is not None
        self._process.kill()
        self._process.wait(STOP_TIMEOUT_S)

    def stop(self) -> int:
        """Send SIGTERM, and return the exit status."""
        assert self._process is not None
        self._process.terminate()
        return self._process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> MirrorMaker:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.kill()


def _clusters(flow: Mapping[str, str]) -> dict[str, str]:
    """Return the settings of the clusters, and of each pair of them."""
    names = list(flow)
    settings = {"clusters": ",".join(names)}
    for source, target in permutations(names, 2):
        is_next = names.index(target) == names.index(source) + 1
        settings[f"{source}->{target}.enabled"] = "true" if is_next else "false"
        if not is_next:
            settings[f"{source}->{target}.emit.heartbeats.enabled"] = "false"
    for name, address in flow.items():
        settings[f"{name}.bootstrap.servers"] = address
        # MirrorMaker does not use these settings without the name of a cluster.
        settings[f"{name}.consumer.isolation.level"] = "read_committed"
        settings[f"{name}.exactly.once.source.support"] = "enabled"
    return settings
