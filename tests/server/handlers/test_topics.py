"""Topics are created, widened and deleted over the wire, in every version."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
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
from oncelog_protocol.messages.describe_log_dirs import (
    DescribableLogDirTopic,
    DescribeLogDirsRequest,
)
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.handlers import (
    create_partitions,
    create_topics,
    delete_topics,
    describe_log_dirs,
)
from oncelog_server.security.resources import Operation
from oncelog_server.settings.model import Settings
from tests.server.handlers.nodes import Denying, ask, broker


def orders(**fields: Any) -> CreatableTopic:
    values: dict[str, Any] = {"name": "orders", "num_partitions": 3, "replication_factor": 1}
    return CreatableTopic(**(values | fields))


@pytest.mark.parametrize("version", APIS[create_topics.API].versions)
async def test_a_topic_is_created_in_every_version(version: int) -> None:
    async with broker() as services:
        config = CreatableTopicConfig("retention.ms", "5")
        request = CreateTopicsRequest([orders(configs=[config])])
        (result,) = (await ask(create_topics, services, request, version)).topics
        assert (result.name, result.error_code, result.error_message) == ("orders", 0, None)
        topic = services.metadata.image.topics["orders"]
        assert (len(topic.partitions), topic.settings) == (3, {"retention.ms": "5"})
        if version >= 5:
            assert (result.num_partitions, result.replication_factor) == (3, 1)
            settings = {
                config.name: (config.value, config.config_source) for config in result.configs
            }
            assert settings["retention.ms"] == ("5", 1)
            assert settings["cleanup.policy"] == ("delete", 5)
        if version >= 7:
            assert result.topic_id == topic.id


async def test_each_topic_has_its_own_outcome() -> None:
    async with broker() as services:
        twice = orders(name="twice")
        config = CreatableTopicConfig("retention.ms", "5")
        request = CreateTopicsRequest(
            [
                twice,
                orders(),
                twice,
                orders(name="big", replication_factor=3),
                orders(name="__cluster_metadata"),
                orders(
                    name="repeated", configs=[CreatableTopicConfig("retention.ms", "7"), config]
                ),
                orders(
                    name="manual",
                    num_partitions=-1,
                    replication_factor=-1,
                    assignments=[CreatableReplicaAssignment(0, [1])],
                ),
            ]
        )
        response = await ask(create_topics, services, request)
        assert {topic.name: topic.error_code for topic in response.topics} == {
            "twice": ErrorCode.INVALID_REQUEST,
            "orders": ErrorCode.NONE,
            "big": ErrorCode.INVALID_REPLICATION_FACTOR,
            "__cluster_metadata": ErrorCode.INVALID_REQUEST,
            "repeated": ErrorCode.NONE,
            "manual": ErrorCode.NONE,
        }
        topics = services.metadata.image.topics
        assert set(topics) == {"orders", "repeated", "manual"}
        assert topics["repeated"].settings == {"retention.ms": "5"}  # the last value


async def test_validate_only_creates_nothing() -> None:
    async with broker() as services:
        response = await ask(create_topics, services, CreateTopicsRequest([orders()], 0, True))
        assert response.topics[0].error_code == ErrorCode.NONE
        assert not services.metadata.image.topics


async def test_create_topics_checks_the_rights_to_create_and_to_describe_configs() -> None:
    denying = Denying((Operation.CREATE, "orders"), (Operation.CREATE, "kafka-cluster"))
    async with broker(authorizer=denying) as services:
        (result,) = (await ask(create_topics, services, CreateTopicsRequest([orders()]))).topics
        assert result.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
    blind = Denying((Operation.DESCRIBE_CONFIGS, "orders"))
    async with broker(authorizer=blind) as services:
        (result,) = (await ask(create_topics, services, CreateTopicsRequest([orders()]))).topics
        assert result.error_code == ErrorCode.NONE
        assert result.topic_config_error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert not result.configs


@pytest.mark.parametrize("version", APIS[delete_topics.API].versions)
async def test_topics_are_deleted_by_name_and_by_id(version: int) -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b")])
        known = services.metadata.image.topics["b"].id
        if version < 6:
            request = DeleteTopicsRequest(topic_names=["a", "b", "none"])
        else:
            request = DeleteTopicsRequest(
                [DeleteTopicState("a"), DeleteTopicState(None, known), DeleteTopicState("none")]
            )
        response = await ask(delete_topics, services, request, version)
        assert {row.name: row.error_code for row in response.responses} == {
            "a": ErrorCode.NONE,
            "b": ErrorCode.NONE,
            "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        }
        assert not services.metadata.image.topics


async def test_invalid_deletions_are_refused() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b")])
        known = services.metadata.image.topics["b"].id
        request = DeleteTopicsRequest(
            [
                DeleteTopicState(),
                DeleteTopicState("a", known),
                DeleteTopicState("a"),
                DeleteTopicState("a"),
                DeleteTopicState(None, b"x" * 16),
                DeleteTopicState("b"),
                DeleteTopicState(None, known),
            ]
        )
        response = await ask(delete_topics, services, request)
        codes = sorted(row.error_code for row in response.responses)
        assert codes == [0, 42, 42, 42, 42, ErrorCode.UNKNOWN_TOPIC_ID]
        assert set(services.metadata.image.topics) == {"a"}


@pytest.mark.parametrize(
    ("version", "code"), [(2, ErrorCode.INVALID_REQUEST), (3, ErrorCode.TOPIC_DELETION_DISABLED)]
)
async def test_deletions_are_refused_if_deletion_is_switched_off(
    version: int, code: ErrorCode
) -> None:
    async with broker(Settings(delete_topic_enable=False)) as services:
        await services.metadata.create_topics([NewTopic("a")])
        request = DeleteTopicsRequest(topic_names=["a"])
        (result,) = (await ask(delete_topics, services, request, version)).responses
        assert result.error_code == code


async def test_without_the_right_to_see_a_topic_its_existence_is_hidden() -> None:
    denied = Denying(
        (Operation.DESCRIBE, "secret"),
        (Operation.DESCRIBE, "none"),
        (Operation.DELETE, "kafka-cluster"),
    )
    async with broker(authorizer=denied) as services:
        await services.metadata.create_topics([NewTopic("secret")])
        request = DeleteTopicsRequest([DeleteTopicState("secret"), DeleteTopicState("none")])
        response = await ask(delete_topics, services, request)
        codes = {row.error_code for row in response.responses}
        assert codes == {ErrorCode.TOPIC_AUTHORIZATION_FAILED}


@pytest.mark.parametrize("version", APIS[create_partitions.API].versions)
async def test_partitions_are_added(version: int) -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b", 2), NewTopic("c")])
        manual = [CreatePartitionsAssignment([1])]
        twice = CreatePartitionsTopic("twice", 2, None)
        request = CreatePartitionsRequest(
            [
                CreatePartitionsTopic("a", 3, None),
                CreatePartitionsTopic("b", 1, None),
                CreatePartitionsTopic("c", 2, manual),
                CreatePartitionsTopic("none", 2, None),
                twice,
                twice,
            ]
        )
        response = await ask(create_partitions, services, request, version)
        assert {result.name: result.error_code for result in response.results} == {
            "a": ErrorCode.NONE,
            "b": ErrorCode.INVALID_PARTITIONS,
            "c": ErrorCode.NONE,
            "none": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "twice": ErrorCode.INVALID_REQUEST,
        }
        topics = services.metadata.image.topics
        assert [len(topics[name].partitions) for name in "abc"] == [3, 2, 2]


@pytest.mark.parametrize("version", APIS[describe_log_dirs.API].versions)
async def test_the_data_directory_is_described(version: int) -> None:
    async with broker(Settings(log_dirs=(".",))) as services:
        for topics in (None, [DescribableLogDirTopic("none", [0])]):
            response = await ask(
                describe_log_dirs, services, DescribeLogDirsRequest(topics), version
            )
            (directory,) = response.results
            assert directory.log_dir.startswith("/")
            assert directory.topics == []
            if version >= 4:
                assert 0 < directory.usable_bytes < directory.total_bytes


async def test_a_missing_directory_has_no_size() -> None:
    async with broker(Settings(log_dirs=("./no-such-directory",))) as services:
        response = await ask(describe_log_dirs, services, DescribeLogDirsRequest(None))
        assert response.results[0].total_bytes == -1
