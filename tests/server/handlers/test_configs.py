"""Requests describe settings with their sources, and alter the settings of topics and brokers."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.apis import APIS
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import alter_configs as replacing
from oncelog_protocol.messages import incremental_alter_configs as changing
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_server.broker_services import BrokerServices
from oncelog_server.cluster.topics import NewTopic
from oncelog_server.config import load_settings
from oncelog_server.handlers import alter_configs, describe_configs, incremental_alter_configs
from oncelog_server.security.resources import Operation
from oncelog_server.settings.dynamic import DYNAMIC, THROTTLES
from tests.server.handlers.nodes import Denying, ask, broker

TOPIC, BROKER = 2, 4
SET, DELETE, APPEND, SUBTRACT = range(4)


async def described(
    services: BrokerServices, kind: int, name: str, version: int | None = None, **fields: Any
) -> Any:
    keys = fields.pop("keys", None)
    resource = DescribeConfigsResource(kind, name, keys)
    request = DescribeConfigsRequest([resource], **fields)
    (result,) = (await ask(describe_configs, services, request, version)).results
    return result


@pytest.mark.parametrize("version", APIS[describe_configs.API].versions)
async def test_a_topics_settings_come_with_their_sources(version: int) -> None:
    settings = load_settings(assignments=["log.retention.hours=1", "log.roll.ms=7"]).settings
    async with broker(settings) as services:
        own = {"segment.ms": "8"}
        await services.metadata.create_topics([NewTopic("a", settings=own)])
        documented = {"include_documentation": True} if version >= 3 else {}
        result = await described(services, TOPIC, "a", version, include_synonyms=True, **documented)
        assert result.error_code == ErrorCode.NONE
        found = {config.name: config for config in result.configs}
        segment, retention = found["segment.ms"], found["retention.ms"]
        assert (segment.value, segment.config_source, segment.read_only) == ("8", 1, False)
        assert [(synonym.name, synonym.value, synonym.source) for synonym in segment.synonyms] == [
            ("segment.ms", "8", 1),
            ("log.roll.ms", "7", 4),
            ("log.roll.hours", "168", 5),
        ]
        # As in Kafka: log.retention.ms, the first setting of the broker, has no value.
        assert (retention.value, retention.config_source) == ("3600000", 5)
        assert retention.synonyms == []
        assert found["remote.storage.enable"].value == "false"
        assert found["leader.replication.throttled.replicas"].value == ""
        if version >= 3:
            assert (segment.config_type, found["cleanup.policy"].config_type) == (5, 7)
            assert "Age of a segment" in segment.documentation


async def test_only_the_requested_settings_are_described() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a")])
        some = await described(services, TOPIC, "a", keys=["flush.ms", "none"])
        assert [(config.name, config.synonyms) for config in some.configs] == [("flush.ms", [])]
        assert some.configs[0].documentation is None


async def test_a_repeated_resource_is_described_once() -> None:
    """A resource of 10 bytes in the request must not add 41 KB to the response each time it is
    repeated. A request for other keys of the same resource is no repetition."""
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("b")])
        this = str(services.broker_id)
        asked = [(BROKER, this, None), (TOPIC, "a", None), (TOPIC, "b", ["segment.ms"])]
        again = [(BROKER, this, []), (TOPIC, "a", ["segment.ms"])]
        resources = [DescribeConfigsResource(*pair) for pair in asked + again * 3]
        results = (await ask(describe_configs, services, DescribeConfigsRequest(resources))).results
        assert [(result.resource_type, result.resource_name) for result in results] == [
            (BROKER, this),
            (TOPIC, "a"),
            (TOPIC, "b"),
            (TOPIC, "a"),
        ]
        for result in results[2:]:
            assert [entry.name for entry in result.configs] == ["segment.ms"]


async def test_only_dynamic_settings_are_not_read_only_and_those_without_effect_are_marked() -> (
    None
):
    settings = load_settings(assignments=["num.partitions=3", "num.io.threads=9"]).settings
    async with broker(settings) as services:
        result = await described(services, BROKER, "1", include_documentation=True)
        found = {config.name: config for config in result.configs}
        changeable = {config.name for config in result.configs if not config.read_only}
        assert changeable == DYNAMIC.keys() - THROTTLES.keys()
        assert (found["num.partitions"].value, found["num.partitions"].config_source) == ("3", 4)
        assert (found["max.connections"].value, found["max.connections"].config_source) == (
            "10000",
            5,
        )
        assert found["num.io.threads"].value == "9"
        assert "without effect" in found["num.io.threads"].documentation
        assert found["oncelog.flush.on.ack"].value == "false"
        assert (await described(services, BROKER, "")).configs == []


@pytest.mark.parametrize(
    ("kind", "name", "code"),
    [
        (TOPIC, "none", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION),
        (TOPIC, "a b", ErrorCode.INVALID_TOPIC_EXCEPTION),
        (BROKER, "2", ErrorCode.INVALID_REQUEST),
        (BROKER, "x", ErrorCode.INVALID_REQUEST),
        (8, "1", ErrorCode.INVALID_REQUEST),
        (99, "", ErrorCode.INVALID_REQUEST),
        (TOPIC, "secret", ErrorCode.TOPIC_AUTHORIZATION_FAILED),
    ],
)
async def test_a_resource_that_cannot_be_described_gets_an_error(
    kind: int, name: str, code: ErrorCode
) -> None:
    denied = Denying((Operation.DESCRIBE_CONFIGS, "secret"))
    async with broker(authorizer=denied) as services:
        result = await described(services, kind, name)
        assert (result.error_code, result.resource_name, result.configs) == (code, name, [])


def replace(name: str, own: dict[str, str | None], kind: int = TOPIC) -> Any:
    configs = [replacing.AlterableConfig(key, value) for key, value in own.items()]
    return replacing.AlterConfigsResource(kind, name, configs)


def change(name: str, *changes: tuple[str, int, str | None], kind: int = TOPIC) -> Any:
    configs = [changing.AlterableConfig(*change) for change in changes]
    return changing.AlterConfigsResource(kind, name, configs)


@pytest.mark.parametrize("version", APIS[alter_configs.API].versions)
async def test_alter_configs_replaces_all_settings_of_a_topic(version: int) -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a", settings={"flush.ms": "1"})])
        request = replacing.AlterConfigsRequest([replace("a", {"retention.ms": "5"})])
        (result,) = (await ask(alter_configs, services, request, version)).responses
        assert (result.error_code, result.error_message) == (0, None)
        assert services.metadata.image.topics["a"].settings == {"retention.ms": "5"}


@pytest.mark.parametrize("version", APIS[incremental_alter_configs.API].versions)
async def test_incremental_alter_configs_keeps_the_other_settings_of_a_topic(version: int) -> None:
    async with broker() as services:
        own = {"flush.ms": "1", "segment.ms": "3"}
        await services.metadata.create_topics([NewTopic("a", settings=own)])
        resource = change(
            "a",
            ("retention.ms", SET, "5"),
            ("flush.ms", DELETE, None),
            ("cleanup.policy", APPEND, "compact"),
        )
        request = changing.IncrementalAlterConfigsRequest([resource])
        (result,) = (await ask(incremental_alter_configs, services, request, version)).responses
        assert (result.error_code, result.error_message) == (0, None)
        assert services.metadata.image.topics["a"].settings == {
            "segment.ms": "3",
            "retention.ms": "5",
            "cleanup.policy": "delete,compact",
        }


async def test_validate_only_alters_nothing() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a")])
        image = services.metadata.image
        resources = [replace("a", {"retention.ms": "5"})]
        await ask(alter_configs, services, replacing.AlterConfigsRequest(resources, True))
        changes = [change("a", ("retention.ms", SET, "5"))]
        asked = changing.IncrementalAlterConfigsRequest(changes, True)
        await ask(incremental_alter_configs, services, asked)
        assert services.metadata.image is image


async def test_incremental_alter_configs_has_an_outcome_for_each_resource() -> None:
    denied = Denying((Operation.ALTER_CONFIGS, "secret"))
    async with broker(authorizer=denied) as services:
        await services.metadata.create_topics([NewTopic("a"), NewTopic("twice")])
        value = ("retention.ms", SET, "5")
        resources = [
            change("a", value),
            change("none", value),
            change("a b", ("nonsense", SET, "1")),
            change("secret", value),
            change("twice", value),
            change("twice", value),
            change("1", ("num.partitions", SET, "5"), kind=BROKER),
            change("2", ("max.connections", SET, "5"), kind=BROKER),
            change("+02", ("max.connections", SET, "5"), kind=BROKER),
            change("b", ("retention.ms", 9, "5")),
            change("c", value, value),
            change("d", ("retention.ms", SET, None)),
            change("e", ("retention.ms", APPEND, "1")),
            change("f", ("remote.storage.enable", SET, "true")),
        ]
        request = changing.IncrementalAlterConfigsRequest(resources)
        response = await ask(incremental_alter_configs, services, request)
        assert [row.error_code for row in response.responses] == [
            ErrorCode.NONE,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_TOPIC_EXCEPTION,
            ErrorCode.TOPIC_AUTHORIZATION_FAILED,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_CONFIG,
            ErrorCode.INVALID_CONFIG,
        ]
        broker_message, *repeated = (row.error_message for row in response.responses[6:9])
        assert repeated == ["Each resource must appear at most once."] * 2
        assert "Cannot update these configs dynamically: [num.partitions]" in broker_message
        assert "remote.storage.enable" in response.responses[-1].error_message


async def test_alter_configs_has_an_outcome_for_each_resource() -> None:
    async with broker() as services:
        await services.metadata.create_topics([NewTopic("a")])
        resources = [
            replace("a", {"retention.ms": None}),
            replace("none", {"retention.ms": "5"}),
            replace("1", {"num.partitions": "5"}, BROKER),
            replace("x", {"retention.ms": "soon"}),
        ]
        response = await ask(alter_configs, services, replacing.AlterConfigsRequest(resources))
        assert [row.error_code for row in response.responses] == [
            ErrorCode.INVALID_REQUEST,
            ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            ErrorCode.INVALID_REQUEST,
            ErrorCode.INVALID_CONFIG,
        ]


async def altered(services: BrokerServices, name: str, *configs: tuple[str, int, str]) -> Any:
    request = changing.IncrementalAlterConfigsRequest([change(name, *configs, kind=BROKER)])
    (row,) = (await ask(incremental_alter_configs, services, request)).responses
    return row.error_code, row.error_message


async def test_dynamic_settings_are_described_with_their_sources_in_kafkas_order() -> None:
    settings = load_settings(assignments=["message.max.bytes=3"]).settings
    async with broker(settings) as services:
        await services.metadata.create_topics([NewTopic("a")])
        done = ErrorCode.NONE, None
        assert await altered(services, "", ("message.max.bytes", SET, "2")) == done
        assert await altered(services, "1", ("message.max.bytes", SET, "1")) == done
        assert await altered(services, "1", ("log.retention.ms", SET, "7")) == done
        assert await altered(services, "", (RATE, SET, "5")) == done
        values = [
            ("message.max.bytes", "1", 2),
            ("message.max.bytes", "2", 3),
            ("message.max.bytes", "3", 4),
            ("message.max.bytes", "1048588", 5),
        ]
        own = await synonyms(services, BROKER, "1")
        assert own["message.max.bytes"] == values
        assert own[RATE] == [(RATE, "5", 3)]
        retention = [("log.retention.ms", "7", 2), ("log.retention.hours", "168", 5)]
        assert own["log.retention.ms"] == retention
        of_topic = await synonyms(services, TOPIC, "a")
        assert of_topic["max.message.bytes"] == values
        assert of_topic["retention.ms"] == retention
        assert await synonyms(services, BROKER, "") == {
            "message.max.bytes": [values[1]],
            RATE: [(RATE, "5", 3)],
        }


async def test_a_dynamic_setting_without_effect_is_described_with_its_sources() -> None:
    settings = load_settings(assignments=["num.io.threads=9"]).settings
    async with broker(settings) as services:
        done = ErrorCode.NONE, None
        assert await altered(services, "", ("num.io.threads", SET, "10")) == done
        assert await altered(services, "1", ("num.io.threads", SET, "11")) == done
        invalid = await altered(services, "1", ("num.io.threads", SET, "0"))
        assert invalid[0] == ErrorCode.INVALID_REQUEST
        assert (await synonyms(services, BROKER, "1"))["num.io.threads"] == [
            ("num.io.threads", "11", 2),
            ("num.io.threads", "10", 3),
            ("num.io.threads", "9", 4),
            ("num.io.threads", "8", 5),
        ]


RATE = "leader.replication.throttled.rate"


async def synonyms(
    services: BrokerServices, kind: int, name: str
) -> dict[str, list[tuple[str, str, int]]]:
    """Return the synonyms of each setting. The first synonym has the source of the setting."""
    result = await described(services, kind, name, include_synonyms=True)
    for config in result.configs:
        if config.synonyms:
            assert config.config_source == config.synonyms[0].source
    return {
        config.name: [(found.name, found.value, found.source) for found in config.synonyms]
        for config in result.configs
    }


async def test_only_a_broker_itself_changes_its_settings() -> None:
    async with broker() as services:
        value = ("message.max.bytes", SET, "2")
        assert await altered(services, "2", value) == (
            ErrorCode.INVALID_REQUEST,
            "Unexpected broker id, expected 1, but received 2",
        )
        assert await altered(services, "x", value) == (
            ErrorCode.INVALID_REQUEST,
            "Node id must be an integer, but it is: x",
        )
        assert services.metadata.image.configs == {}
        resource = change("1", value, kind=BROKER)
        request = changing.IncrementalAlterConfigsRequest([resource], validate_only=True)
        (row,) = (await ask(incremental_alter_configs, services, request)).responses
        assert (row.error_code, services.metadata.image.configs) == (ErrorCode.NONE, {})
        whole = replacing.AlterConfigsRequest([replace("1", {"message.max.bytes": "2"}, BROKER)])
        await ask(alter_configs, services, whole)
        assert services.metadata.image.broker_config("1").settings == {"message.max.bytes": "2"}
