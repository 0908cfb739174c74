"""Raw requests for topics and settings. The broker refuses the requests that Kafka refuses, with
Kafka's codes and messages."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import alter_configs as replacing
from oncelog_protocol.messages import incremental_alter_configs as changing
from oncelog_protocol.messages.alter_configs import AlterConfigsRequest
from oncelog_protocol.messages.alter_configs import AlterConfigsResource as ReplacedResource
from oncelog_protocol.messages.alter_replica_log_dirs import (
    AlterReplicaLogDir,
    AlterReplicaLogDirsRequest,
    AlterReplicaLogDirTopic,
)
from oncelog_protocol.messages.create_partitions import (
    CreatePartitionsAssignment,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
)
from oncelog_protocol.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from oncelog_protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_topic_partitions import (
    DescribeTopicPartitionsRequest,
    TopicRequest,
)
from oncelog_protocol.messages.incremental_alter_configs import (
    AlterConfigsResource as AlteredResource,
)
from oncelog_protocol.messages.incremental_alter_configs import IncrementalAlterConfigsRequest
from oncelog_protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from oncelog_protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from tests.conformance.conftest import Target
from tests.conformance.differences import (
    ONE_RESOURCE_OF_NO_TYPE,
    SETTING_WITHOUT_EFFECT,
    UNKNOWN_SETTING_OF_A_BROKER,
    Difference,
)
from tests.harness.waiting import wait_until

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)
TIMEOUT_MS = 20_000


def new(name: str, partitions: int = 1, replicas: int = 1, **fields: Any) -> CreatableTopic:
    return CreatableTopic(name, partitions, replicas, **fields)


def manual(*replicas: tuple[int, list[int]], **fields: Any) -> dict[str, Any]:
    assignments = [CreatableReplicaAssignment(number, ids) for number, ids in replicas]
    return {"partitions": -1, "replicas": -1, "assignments": assignments, **fields}


def configs(**values: str | None) -> dict[str, Any]:
    named = {name.replace("_", "."): value for name, value in values.items()}
    return {"configs": [CreatableTopicConfig(name, value) for name, value in named.items()]}


# Fields of the request, the error code, and words of the message.
REFUSED_TOPICS: list[tuple[dict[str, Any], str, str]] = [
    ({"partitions": 0}, "INVALID_PARTITIONS", "non-positive"),
    ({"partitions": -2}, "INVALID_PARTITIONS", "non-positive"),
    ({"replicas": 0}, "INVALID_REPLICATION_FACTOR", "larger than 0"),
    ({"replicas": -2}, "INVALID_REPLICATION_FACTOR", "larger than 0"),
    ({"replicas": 3}, "INVALID_REPLICATION_FACTOR", "only 1 broker(s) are registered"),
    (manual((0, [1]), partitions=1), "INVALID_REQUEST", "numPartitions was not set to -1"),
    (manual((0, [1]), replicas=1), "INVALID_REQUEST", "factor was not set to -1"),
    (manual((0, [])), "INVALID_REPLICA_ASSIGNMENT", "empty replica list"),
    (manual((0, [1, 1])), "INVALID_REPLICA_ASSIGNMENT", "broker 1 more than once"),
    (manual((0, [99])), "INVALID_REPLICA_ASSIGNMENT", "broker 99, but no such broker"),
    (manual((1, [1])), "INVALID_REPLICA_ASSIGNMENT", "consecutive 0-based integer sequence"),
    (configs(nonsense="1"), "INVALID_CONFIG", "Unknown topic config name: nonsense"),
    (configs(retention_ms=None), "INVALID_CONFIG", "Null value not supported"),
    (configs(retention_ms="soon"), "INVALID_CONFIG", "Not a number of type LONG"),
    (configs(segment_bytes="1048575"), "INVALID_CONFIG", "Value must be at least 1048576"),
    (configs(segment_bytes="4096"), "INVALID_CONFIG", "Value must be at least 1048576"),
    (configs(retention_ms="-2"), "INVALID_CONFIG", "Value must be at least -1"),
    (configs(segment_index_bytes="9999999999"), "INVALID_CONFIG", "Not a number of type INT"),
    (configs(cleanup_policy="shred"), "INVALID_CONFIG", "shred"),
    (configs(compression_type="brotli"), "INVALID_CONFIG", "brotli"),
    (configs(compression_gzip_level="0"), "INVALID_CONFIG", "compression.gzip.level"),
    (configs(min_cleanable_dirty_ratio="1.1"), "INVALID_CONFIG", "min.cleanable.dirty.ratio"),
    (configs(preallocate="yes"), "INVALID_CONFIG", "Expected value to be either true or false"),
    (configs(message_timestamp_type="Now"), "INVALID_CONFIG", "message.timestamp.type"),
    (configs(remote_storage_enable="true"), "INVALID_CONFIG", ""),
    (
        configs(min_compaction_lag_ms="5", max_compaction_lag_ms="4"),
        "INVALID_CONFIG",
        "min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
    ),
]


@pytest.mark.parametrize(("asked", "code", "words"), REFUSED_TOPICS)
def test_invalid_topics_are_refused(
    wire: Wire, name: str, asked: dict[str, Any], code: str, words: str
) -> None:
    (result,) = wire.call(CreateTopicsRequest([new(name, **asked)])).topics
    assert (ErrorCode(result.error_code).name, result.name) == (code, name)
    assert words in (result.error_message or "")


def test_internal_segment_bytes_allows_small_segments(wire: Wire, name: str) -> None:
    asked = configs(internal_segment_bytes="100", segment_bytes="1048576")
    (result,) = wire.call(CreateTopicsRequest([new(name, **asked)])).topics
    assert result.error_code == ErrorCode.NONE


@pytest.mark.parametrize("bad", ["", ".", "..", "a b", "ä", "a/b", "x" * 250])
def test_h25_an_invalid_topic_name_is_refused(wire: Wire, bad: str) -> None:
    (result,) = wire.call(CreateTopicsRequest([new(bad)])).topics
    assert result.error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert result.error_message.startswith("Topic name is invalid: ")


def test_each_topic_of_a_request_has_its_own_outcome(wire: Wire, name: str, topic: str) -> None:
    """If a request has a topic twice, both fail. Names that differ only in `.` and `_` collide."""
    assert wire.call(CreateTopicsRequest([new(f"{name}.b")])).topics[0].error_code == 0
    wanted = [
        new(topic),
        new(f"{name}_b"),
        new(f"{name}-twice"),
        new(f"{name}-twice"),
        new("__cluster_metadata"),
        new(f"{name}-default", partitions=-1, replicas=-1),
    ]
    results = wire.call(CreateTopicsRequest(wanted)).topics
    assert {result.name: ErrorCode(result.error_code).name for result in results} == {
        topic: "TOPIC_ALREADY_EXISTS",
        f"{name}_b": "INVALID_TOPIC_EXCEPTION",
        f"{name}-twice": "INVALID_REQUEST",
        "__cluster_metadata": "INVALID_REQUEST",
        f"{name}-default": "NONE",
    }
    made = next(result for result in results if result.name == f"{name}-default")
    assert (made.num_partitions, made.replication_factor) == (1, 1)


def test_validate_only_creates_no_topic(wire: Wire, name: str) -> None:
    request = CreateTopicsRequest([new(name, 2, **configs(retention_ms="5"))], validate_only=True)
    (result,) = wire.call(request).topics
    assert (result.error_code, result.num_partitions) == (0, 2)
    shown = {config.name: (config.value, config.config_source) for config in result.configs}
    assert shown["retention.ms"] == ("5", 1)
    looked = wire.call(MetadataRequest([MetadataRequestTopic(name=name)], False), 9)
    assert looked.topics[0].error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_partitions_are_added_and_never_taken_away(wire: Wire, topic: str) -> None:
    for count, assignments, code in (
        (3, None, "INVALID_PARTITIONS"),
        (2, None, "INVALID_PARTITIONS"),
        (5, [[1]], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [[99]], "INVALID_REPLICA_ASSIGNMENT"),
        (4, [[1]], "NONE"),
        (5, None, "NONE"),
    ):
        by_hand = [CreatePartitionsAssignment(ids) for ids in assignments or ()]
        asked = CreatePartitionsTopic(topic, count, by_hand or None)
        (result,) = wire.call(CreatePartitionsRequest([asked], TIMEOUT_MS)).results
        assert ErrorCode(result.error_code).name == code, (count, result.error_message)
    nowhere = CreatePartitionsTopic(f"{topic}-none", 2, None)
    (result,) = wire.call(CreatePartitionsRequest([nowhere], TIMEOUT_MS)).results
    assert result.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_topics_are_deleted_by_name_or_id_but_not_by_both(
    wire: Wire, topic: str, name: str
) -> None:
    described = wire.call(DescribeTopicPartitionsRequest([TopicRequest(topic)])).topics[0]
    wanted = [
        DeleteTopicState(),
        DeleteTopicState(f"{name}-both", described.topic_id),
        DeleteTopicState(f"{name}-none"),
        DeleteTopicState(None, b"x" * 16),
        DeleteTopicState(None, described.topic_id),
    ]
    results = wire.call(DeleteTopicsRequest(wanted, timeout_ms=TIMEOUT_MS)).responses
    outcomes = {
        (result.name, result.topic_id): ErrorCode(result.error_code).name for result in results
    }
    assert outcomes == {
        (None, bytes(16)): "INVALID_REQUEST",
        (f"{name}-both", described.topic_id): "INVALID_REQUEST",
        (f"{name}-none", bytes(16)): "UNKNOWN_TOPIC_OR_PARTITION",
        (None, b"x" * 16): "UNKNOWN_TOPIC_ID",
        (topic, described.topic_id): "NONE",
    }


def describe(wire: Wire, kind: int, name: str) -> Any:
    resource = DescribeConfigsResource(kind, name, None)
    (result,) = wire.call(DescribeConfigsRequest([resource], True, True)).results
    return result


def own_settings(wire: Wire, topic: str) -> dict[str, str]:
    """Return the topic's own settings."""
    entries = describe(wire, TOPIC, topic).configs
    return {entry.name: entry.value for entry in entries if entry.config_source == 1}


def test_a_topic_is_described_with_kafkas_names_types_and_values(wire: Wire, topic: str) -> None:
    result = describe(wire, TOPIC, topic)
    found = {config.name: config for config in result.configs}
    assert found["retention.ms"].value == "604800000"
    assert found["retention.ms"].config_type == 5
    assert [synonym.name for synonym in found["cleanup.policy"].synonyms] == ["log.cleanup.policy"]
    assert found["cleanup.policy"].value == "delete"
    assert found["flush.ms"].value == "9223372036854775807"
    assert found["min.cleanable.dirty.ratio"].value == "0.5"
    assert found["leader.replication.throttled.replicas"].value == ""
    assert not any(config.read_only or config.is_sensitive for config in result.configs)
    assert all(config.documentation for config in result.configs)


def wait_for_settings(wire: Wire, topic: str, own: dict[str, str]) -> None:
    """Wait until the brokers know the settings. Kafka responds to a change before that."""
    wait_until(lambda: own_settings(wire, topic) == own, f"{topic} has {own}")


def change(name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC) -> Any:
    entries = [changing.AlterableConfig(*change) for change in changes]
    return changing.AlterConfigsResource(kind, name, entries)


def test_settings_are_changed_one_by_one(wire: Wire, topic: str) -> None:
    steps: list[list[tuple[str, int, str | None]]] = [
        [("retention.ms", SET, "5"), ("cleanup.policy", APPEND, "compact")],
        [("cleanup.policy", SUBTRACT, "delete"), ("retention.ms", DELETE, None)],
    ]
    expected = [
        {"retention.ms": "5", "cleanup.policy": "delete,compact"},
        {"cleanup.policy": "compact"},
    ]
    for changes, own in zip(steps, expected, strict=True):
        request = changing.IncrementalAlterConfigsRequest([change(topic, *changes)])
        (result,) = wire.call(request).responses
        assert (result.error_code, result.error_message) == (0, None)
        wait_for_settings(wire, topic, own)


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ([("retention.ms", SET, "x")], "INVALID_CONFIG", "Not a number of type LONG"),
        ([("nonsense", SET, "x")], "INVALID_CONFIG", "Unknown topic config name: nonsense"),
        ([("retention.ms", APPEND, "5")], "INVALID_CONFIG", "Can't APPEND to key retention.ms"),
        ([("retention.ms", SET, None)], "INVALID_REQUEST", "Null value not supported for"),
        ([("flush.ms", SET, "1"), ("flush.ms", SET, "2")], "INVALID_REQUEST", "duplicate config"),
    ],
)
def test_invalid_changes_of_settings_are_refused(
    wire: Wire, topic: str, changes: list[Any], code: str, words: str
) -> None:
    request = changing.IncrementalAlterConfigsRequest([change(topic, *changes)])
    (result,) = wire.call(request).responses
    assert ErrorCode(result.error_code).name == code
    assert words in (result.error_message or "")
    assert own_settings(wire, topic) == {}


def test_alter_configs_deletes_the_settings_that_it_does_not_name(wire: Wire, topic: str) -> None:
    for own in ({"retention.ms": "5", "flush.ms": "6"}, {"flush.ms": "7"}, {}):
        entries = [replacing.AlterableConfig(*item) for item in own.items()]
        resource = replacing.AlterConfigsResource(TOPIC, topic, entries)
        (result,) = wire.call(replacing.AlterConfigsRequest([resource])).responses
        assert (result.error_code, result.error_message) == (0, None)
        wait_for_settings(wire, topic, own)


def test_settings_of_a_missing_topic_or_broker_are_refused(wire: Wire, name: str) -> None:
    assert describe(wire, TOPIC, name).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert describe(wire, TOPIC, "a b").error_code == ErrorCode.INVALID_TOPIC_EXCEPTION
    assert describe(wire, BROKER, "99").error_code == ErrorCode.INVALID_REQUEST
    assert describe(wire, 99, "").error_code == ErrorCode.INVALID_REQUEST
    value = ("retention.ms", SET, "5")
    request = changing.IncrementalAlterConfigsRequest(
        [change(name, value), change("99", ("log.retention.ms", SET, "5"), kind=BROKER)]
    )
    unknown, elsewhere = wire.call(request).responses
    assert unknown.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert elsewhere.error_code == ErrorCode.INVALID_REQUEST


def test_a_brokers_settings_that_need_a_restart_are_refused(target: Target, wire: Wire) -> None:
    """Kafka can change some of these settings at run time. It refuses all others with the same
    message as oncelog."""
    own = describe(wire, BROKER, "1")
    assert own.error_code == 0
    found = {config.name: config for config in own.configs}
    assert found["num.partitions"].read_only
    assert found["socket.request.max.bytes"].value == "104857600"
    resource = change("1", ("socket.request.max.bytes", SET, "5"), kind=BROKER)
    (result,) = wire.call(changing.IncrementalAlterConfigsRequest([resource])).responses
    assert result.error_code == ErrorCode.INVALID_REQUEST
    assert "Cannot update these configs dynamically" in result.error_message


@pytest.mark.parametrize(
    ("name", "difference"),
    [
        ("nosuch.setting", UNKNOWN_SETTING_OF_A_BROKER),
        ("remote.fetch.max.wait.ms", SETTING_WITHOUT_EFFECT),
    ],
)
def test_only_settings_with_an_effect_are_dynamic(
    target: Target, wire: Wire, name: str, difference: Difference
) -> None:
    resource = change("1", (name, SET, "1"), kind=BROKER)
    request = changing.IncrementalAlterConfigsRequest([resource], validate_only=True)
    (result,) = wire.call(request).responses
    assert ErrorCode(result.error_code).name == difference.expected(target.name)


OF_LISTENER = "listener.name.plaintext"
NO_CONNECTIONS = "Invalid value org.apache.kafka.common.config.ConfigException: Invalid"


@pytest.mark.parametrize(
    ("config", "code", "message"),
    [
        (("log.dirs", SET, "/x"), "INVALID_REQUEST", "configs dynamically: [log.dirs]"),
        (("log.dirs", DELETE, None), "NONE", None),
        (("log.cleanup.policy", APPEND, "compact"), "NONE", None),
        (("message.max.bytes", SET, None), "INVALID_REQUEST", "Null value not supported for : "),
        (
            ("message.max.bytes", APPEND, "7"),
            "INVALID_CONFIG",
            "Config value append is not allowed",
        ),
        (("min.insync.replicas", SET, "2"), "INVALID_CONFIG", "while ELR is enabled"),
        (("max.connections.per.ip.overrides", SET, "x"), "INVALID_REQUEST", ""),
        (("max.connections", SET, "0"), "INVALID_REQUEST", f"{NO_CONNECTIONS} max.connections 0"),
        ((f"{OF_LISTENER}.max.connections", SET, "500"), "NONE", None),
        ((f"{OF_LISTENER}.max.connection.creation.rate", SET, "500"), "NONE", None),
        (("listener.name.nosuch.max.connections", SET, "5"), "NONE", None),
        ((f"{OF_LISTENER}.max.connections", DELETE, None), "NONE", None),
        (
            (f"{OF_LISTENER}.max.connections", SET, "0"),
            "INVALID_REQUEST",
            f"{NO_CONNECTIONS} max.connections 0",
        ),
        (
            (f"{OF_LISTENER}.max.connection.creation.rate", SET, "0"),
            "INVALID_REQUEST",
            f"{NO_CONNECTIONS} max.connection.creation.rate 0",
        ),
        ((f"{OF_LISTENER}.max.connections", SET, "-1"), "INVALID_REQUEST", "Invalid value -1 for"),
        ((f"{OF_LISTENER}.max.connections", SET, "x"), "INVALID_REQUEST", "Invalid value x for"),
        ((f"{OF_LISTENER}.num.network.threads", SET, "2"), "NONE", None),
        ((f"{OF_LISTENER}.num.network.threads", DELETE, None), "NONE", None),
        (("listener.name.nosuch.num.network.threads", SET, "2"), "NONE", None),
        (
            (f"{OF_LISTENER}.num.network.threads", SET, "0"),
            "INVALID_REQUEST",
            "Invalid value 0 for configuration num.network.threads: Value must be at least 1",
        ),
        (
            (f"{OF_LISTENER}.num.network.threads", SET, "x"),
            "INVALID_REQUEST",
            "Invalid value x for configuration num.network.threads: Not a number of type INT",
        ),
        (("log.retention.ms", SET, "0"), "INVALID_REQUEST", "log.retention.ms"),
        (
            ("num.replica.fetchers", SET, "3"),
            "INVALID_REQUEST",
            "validation failed for num.replica.fetchers=3, value should not be greater than double "
            "the current value 1 for configuration Invalid dynamic configuration",
        ),
        (
            (f"{OF_LISTENER}.num.network.threads", SET, "999"),
            "INVALID_REQUEST",
            "validation failed for num.network.threads=999, value should not be greater than",
        ),
        (("max.connections", 7, "1"), "INVALID_REQUEST", "Unknown operations type 7"),
        (("max.connections", 7, None), "INVALID_REQUEST", "Null value not supported for : "),
        (("nosuch", APPEND, "1"), "INVALID_CONFIG", "Unknown config name: nosuch"),
        (("log.dirs", APPEND, "/x"), "INVALID_REQUEST", "configs dynamically: [log.dirs]"),
    ],
)
def test_dynamic_settings_of_a_broker_are_checked(
    wire: Wire, config: tuple[str, int, str | None], code: str, message: str | None
) -> None:
    resource = change("1", config, kind=BROKER)
    request = changing.IncrementalAlterConfigsRequest([resource], validate_only=True)
    (result,) = wire.call(request).responses
    assert ErrorCode(result.error_code).name == code
    assert message is None or message in result.error_message


def test_settings_of_a_listener_that_can_change_for_all_brokers(wire: Wire) -> None:
    """Kafka's DynamicBrokerConfig has these three. It takes no other setting of a listener for all
    brokers."""
    names = ("max.connections", "max.connection.creation.rate", "num.network.threads")
    for name, code in (*((name, "NONE") for name in names), ("num.io.threads", "INVALID_REQUEST")):
        resource = change("", (f"{OF_LISTENER}.{name}", SET, "2"), kind=BROKER)
        request = changing.IncrementalAlterConfigsRequest([resource], validate_only=True)
        (result,) = wire.call(request).responses
        assert ErrorCode(result.error_code).name == code, name


def test_a_broker_is_checked_by_its_name(wire: Wire) -> None:
    value = ("log.roll.ms", SET, "7000")
    for name, message in (
        ("2", "Unexpected broker id, expected 1, but received 2"),
        ("x", "Node id must be an integer, but it is: x"),
    ):
        request = changing.IncrementalAlterConfigsRequest([change(name, value, kind=BROKER)])
        (result,) = wire.call(request).responses
        assert (result.error_code, result.error_message) == (ErrorCode.INVALID_REQUEST, message)


TRANSACTION_VERSION = "transaction.version"


@pytest.mark.parametrize(
    ("feature", "level", "kind", "reason"),
    [
        (TRANSACTION_VERSION, 2, 1, None),
        (TRANSACTION_VERSION, 1, 1, "Can't downgrade the version of this feature without"),
        (TRANSACTION_VERSION, 1, 2, None),
        (TRANSACTION_VERSION, 0, 3, None),
        (TRANSACTION_VERSION, 3, 1, "Local controller 1 only supports versions 0-2"),
        (TRANSACTION_VERSION, -1, 1, "A feature version cannot be less than 0."),
        (TRANSACTION_VERSION, 2, 0, "does not support the given upgrade type."),
        ("nosuch", 1, 1, "Local controller 1 does not support this feature."),
        ("nosuch", 0, 2, "Feature nosuch not found."),
    ],
)
def test_changes_of_features_are_checked(
    wire: Wire, feature: str, level: int, kind: int, reason: str | None
) -> None:
    key = FeatureUpdateKey(feature, level, upgrade_type=kind)
    request = UpdateFeaturesRequest(feature_updates=[key], validate_only=True)
    for version in (1, 2):
        response = wire.call(request, version)
        if reason is None:
            assert (response.error_code, response.error_message) == (ErrorCode.NONE, None)
            rows = [(row.feature, row.error_code, row.error_message) for row in response.results]
            assert rows == ([(feature, 0, "NONE")] if version == 1 else [])
        else:
            assert response.error_code == ErrorCode.INVALID_UPDATE_VERSION
            prefix = f"Invalid update version {level} for feature {feature}. "
            assert prefix in response.error_message
            assert reason in response.error_message
            assert response.results == []


def test_a_replica_stays_in_the_only_data_directory(
    target: Target, wire: Wire, topic: str, name: str
) -> None:
    own = str(target.data)
    long = "x" * 249

    def moved(path: str, *partitions: tuple[str, int]) -> set[str]:
        topics = [AlterReplicaLogDirTopic(topic, [number]) for topic, number in partitions]
        request = AlterReplicaLogDirsRequest([AlterReplicaLogDir(path, topics)])
        return {
            ErrorCode(row.error_code).name
            for found in wire.call(request).results
            for row in found.partitions
        }

    assert moved(own, (topic, 0)) == {"NONE"}
    for other in (f"{own}/", "", "/nosuch"):
        assert moved(other, (topic, 0), (name, 0)) == {"LOG_DIR_NOT_FOUND"}
    assert moved(own, (topic, 99), (f"{name}-not", 0)) == {"UNKNOWN_TOPIC_OR_PARTITION"}
    assert moved("/nosuch", (long, 0)) == {"INVALID_TOPIC_EXCEPTION"}


def test_partitions_are_described_page_by_page(wire: Wire, topic: str) -> None:
    topics = [TopicRequest(topic), TopicRequest(f"{topic}-none")]
    first = wire.call(DescribeTopicPartitionsRequest(topics, 2))
    assert [len(topic.partitions) for topic in first.topics if topic.error_code == 0] == [2]
    assert (first.next_cursor.topic_name, first.next_cursor.partition_index) == (topic, 2)
    every = wire.call(DescribeTopicPartitionsRequest(topics))
    assert {topic.name: topic.error_code for topic in every.topics} == {
        topic: ErrorCode.NONE,
        f"{topic}-none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
    assert every.next_cursor is None


def test_topics_that_do_not_exist_have_authorized_operations_too(wire: Wire, topic: str) -> None:
    """B7: the response has authorized operations for every named topic (KIP-430), even for a topic
    that does not exist."""
    missing = f"{topic}-not"
    request = MetadataRequest(
        [MetadataRequestTopic(name=topic), MetadataRequestTopic(name=missing)],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    found = {
        topic.name: topic.topic_authorized_operations for topic in wire.call(request, 12).topics
    }
    assert found[missing] == found[topic] > 0
    pages = DescribeTopicPartitionsRequest([TopicRequest(topic), TopicRequest(missing)], 10)
    operations = {
        topic.name: topic.topic_authorized_operations for topic in wire.call(pages).topics
    }
    assert operations == found


@pytest.mark.parametrize("kind", [0, 3, 64])
def test_changes_fail_only_for_the_resource_of_an_unknown_type(
    wire: Wire, topic: str, kind: int
) -> None:
    """Only the change of the resource with the unknown type is refused with INVALID_REQUEST."""
    for request in (
        AlterConfigsRequest(
            [ReplacedResource(kind, "x", []), ReplacedResource(2, topic, [])], validate_only=True
        ),
        IncrementalAlterConfigsRequest(
            [AlteredResource(kind, "x", []), AlteredResource(2, topic, [])], validate_only=True
        ),
    ):
        wrong, right = wire.call(request).responses
        assert (wrong.error_code, wrong.error_message) == (
            ErrorCode.INVALID_REQUEST,
            f"Unknown resource type {kind}",
        )
        assert right.error_code == ErrorCode.NONE


@pytest.mark.parametrize("kind", [0, 3, 64])
def test_describe_configs_fails_only_for_the_resource_of_an_unknown_type(
    target: Target, wire: Wire, topic: str, kind: int
) -> None:
    """Only the resource with the unknown type gets INVALID_REQUEST. In Kafka all resources of the
    request get this code."""
    resources = [DescribeConfigsResource(kind, "x", None), DescribeConfigsResource(2, topic, None)]
    wrong, right = wire.call(DescribeConfigsRequest(resources)).results
    assert wrong.error_code == ErrorCode.INVALID_REQUEST
    assert ErrorCode(right.error_code).name == ONE_RESOURCE_OF_NO_TYPE.expected(target.name)
