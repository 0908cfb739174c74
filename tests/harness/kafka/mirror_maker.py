"""Apache Kafka's MirrorMaker 2 as its own process, in its dedicated mode with exactly once."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from itertools import permutations
from pathlib import Path

from tests.harness.kafka.jars import cache_directory, jars_of
from tests.harness.kafka.java_program import JavaProgram

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


class MirrorMaker(JavaProgram):
    """Copies along `flow`, from each named cluster to the next, while the context is open.

    `flow` has the address of each cluster by its name. `settings` are added to the properties.
    """

    def __init__(
        self, directory: Path, flow: Mapping[str, str], settings: Mapping[str, str]
    ) -> None:
        lines = {**_SETTINGS, **_clusters(flow), **settings}
        properties = directory / "mirror-maker.properties"
        properties.write_text("".join(f"{name}={value}\n" for name, value in lines.items()))
        super().__init__(
            directory / "mirror-maker.log",
            "org.apache.kafka.connect.mirror.MirrorMaker",
            [properties],
            jars=mirror_maker_jars(),
            options=["-Dorg.apache.logging.log4j.level=INFO"],
        )


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
