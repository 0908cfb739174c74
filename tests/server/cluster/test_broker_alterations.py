"""Changes of dynamic settings of brokers: Kafka's checks, codes and messages, and the image that a
change leads to."""

from __future__ import annotations

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.broker_alterations import alter_broker, altered_broker_settings
from oncelog_server.cluster.store import Delete
from oncelog_server.cluster.topic_alterations import Alteration, AlterOperation, alter_topic
from oncelog_server.refusal import Refused
from oncelog_server.settings.contradictions import contradictions
from oncelog_server.settings.model import Settings
from tests.server.cluster.clusters import Cluster

SET, DELETE, APPEND, SUBTRACT = AlterOperation


def altered(
    cluster: Cluster,
    name: str,
    *changes: tuple[str, AlterOperation, str | None],
    static: Settings | None = None,
) -> tuple[ErrorCode, str] | None:
    """Make the changes. Return the refusal, None for success. `static` are the settings of the
    start."""
    settings = (static or Settings()).running()
    before = cluster.image.broker_config(name).settings
    try:
        own = altered_broker_settings(before, [Alteration(*change) for change in changes])
        cluster.apply(alter_broker(cluster.image, settings, name, own))
    except Refused as refused:
        return refused.code, refused.message
    return None


def test_the_settings_of_a_broker_are_in_the_image_until_the_last_is_removed() -> None:
    cluster = Cluster()
    assert altered(cluster, "1", ("max.connections", SET, "5"), ("log.roll.ms", SET, "7")) is None
    assert altered(cluster, "", ("max.connections", SET, "6")) is None
    assert {name: found.settings for name, found in cluster.image.configs.items()} == {
        "broker/1": {"max.connections": "5", "log.roll.ms": "7"},
        "broker/": {"max.connections": "6"},
    }
    assert altered(cluster, "1", ("log.roll.ms", DELETE, None)) is None
    (write,) = alter_broker(cluster.image, Settings(), "1", {})
    (delete,) = write.operations
    assert isinstance(delete, Delete)
    cluster.apply([write])
    assert cluster.image.configs.keys() == {"broker/"}
    assert alter_broker(cluster.image, Settings(), "1", {}) == []


def test_a_list_is_appended_to_its_default() -> None:
    cluster = Cluster()
    policy = "log.cleanup.policy"
    assert altered(cluster, "1", (policy, APPEND, "compact")) is None
    assert cluster.image.broker_config("1").settings == {policy: "delete,compact"}
    assert altered(cluster, "1", (policy, SUBTRACT, "delete")) is None
    assert cluster.image.broker_config("1").settings == {policy: "compact"}


INVALID, CONFIG = ErrorCode.INVALID_REQUEST, ErrorCode.INVALID_CONFIG


# The messages are those of Apache Kafka 4.3.1, except where Kafka has no message.
@pytest.mark.parametrize(
    ("change", "code", "message"),
    [
        (
            ("log.dirs", SET, "/x"),
            INVALID,
            "Cannot update these configs dynamically: [log.dirs]",
        ),
        (
            ("queued.max.requests", SET, "3"),
            INVALID,
            "Cannot update these configs dynamically: [queued.max.requests]",
        ),
        (
            ("log.retention.hours", SET, "3"),
            INVALID,
            "Cannot update these configs dynamically: [log.retention.hours]",
        ),
        (
            ("message.max.bytes", SET, "-5"),
            INVALID,
            "Invalid value -5 for configuration message.max.bytes: Value must be at least 0",
        ),
        (
            ("follower.replication.throttled.rate", SET, "x"),
            INVALID,
            "Invalid value x for configuration follower.replication.throttled.rate: Not a number "
            "of type LONG",
        ),
        (
            ("follower.replication.throttled.rate", SET, "-1"),
            INVALID,
            "Invalid value -1 for configuration follower.replication.throttled.rate: Value must be "
            "at least 0",
        ),
        (
            ("message.max.bytes", SET, None),
            INVALID,
            "Null value not supported for : message.max.bytes",
        ),
        (
            ("message.max.bytes", APPEND, "7"),
            CONFIG,
            "Config value append is not allowed for config key: message.max.bytes",
        ),
        (
            ("nosuch", SUBTRACT, "7"),
            CONFIG,
            "Unknown config name: nosuch",
        ),
        (
            ("min.insync.replicas", SET, "2"),
            CONFIG,
            "Broker-level min.insync.replicas cannot be altered while ELR is enabled.",
        ),
        (
            ("log.retention.ms", SET, "0"),
            INVALID,
            "requirement failed: log.retention.ms must be unlimited (-1) or, greater than or equal "
            "to 1",
        ),
        (
            ("log.roll.ms", SET, "0"),
            INVALID,
            "requirement failed: log.roll.ms must be greater than or equal to 1",
        ),
        (
            ("log.roll.jitter.ms", SET, "-1"),
            INVALID,
            "requirement failed: log.roll.jitter.ms must be greater than or equal to 0",
        ),
        (
            ("max.connections.per.ip", SET, "0"),
            INVALID,
            "requirement failed: max.connections.per.ip can be set to zero only if "
            "max.connections.per.ip.overrides property is set.",
        ),
        (
            ("log.cleaner.dedupe.buffer.size", SET, "1048576"),
            INVALID,
            "requirement failed: log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner "
            "thread.",
        ),
        (
            ("message.max.bytes", 7, "1"),
            INVALID,
            "Unknown operations type 7",
        ),
        (
            ("message.max.bytes", 7, None),
            INVALID,
            "Null value not supported for : message.max.bytes",
        ),
        (
            ("advertised.listeners", APPEND, "x"),
            INVALID,
            "Cannot update these configs dynamically: [advertised.listeners]",
        ),
        (
            ("follower.replication.throttled.rate", APPEND, "1"),
            CONFIG,
            "Unknown config name: follower.replication.throttled.rate",
        ),
        (
            ("log.cleanup.policy", APPEND, ""),
            INVALID,
            "Configuration 'log.cleanup.policy' values must not be empty.",
        ),
        (
            ("max.connections.per.ip.overrides", SET, "x"),
            INVALID,
            "Error parsing configuration property 'max.connections.per.ip.overrides': 'x' is not "
            "an address and a count, as in ::1:50",
        ),
    ],
)
def test_a_change_that_is_not_valid_is_refused_and_changes_nothing(
    change: tuple[str, AlterOperation, str | None], code: ErrorCode, message: str
) -> None:
    cluster = Cluster()
    assert altered(cluster, "1", change) == (code, message)
    assert cluster.image.configs == {}


def test_a_setting_may_contradict_a_topics_own() -> None:
    """As in Kafka (DynamicLogConfig), the topics are not looked at."""
    cluster = Cluster()
    cluster.create("t")
    own = {"max.compaction.lag.ms": "50"}
    cluster.apply(alter_topic(cluster.image, Settings(), "t", own))
    assert altered(cluster, "1", ("log.cleaner.min.compaction.lag.ms", SET, "100")) is None


def test_the_lags_of_compaction_may_not_cross() -> None:
    cluster = Cluster()
    assert altered(cluster, "1", ("log.cleaner.max.compaction.lag.ms", SET, "50")) is None
    refusal = altered(cluster, "1", ("log.cleaner.min.compaction.lag.ms", SET, "100"))
    assert refusal is not None
    assert refusal[1].endswith("is above log.cleaner.max.compaction.lag.ms=50")


def test_all_brokers_have_the_same_min_isr_and_keep_it() -> None:
    """KIP-966: eligible leader replicas depend on min.insync.replicas."""
    cluster = Cluster()
    assert altered(cluster, "", ("min.insync.replicas", SET, "2")) is None
    assert altered(cluster, "", ("min.insync.replicas", SET, "1")) is None
    refusal = altered(cluster, "", ("min.insync.replicas", DELETE, None))
    assert refusal is not None
    assert refusal[1] == "Cluster-level min.insync.replicas cannot be removed while ELR is enabled."


def test_a_contradiction_of_the_start_refuses_no_change() -> None:
    """A broker that runs with settings that contradict each other can still be changed."""
    cluster = Cluster()
    static = Settings(broker_id=7, node_id=3, given={"node.id": "3"})
    assert contradictions(static)
    assert altered(cluster, "1", ("max.connections", SET, "5"), static=static) is None
