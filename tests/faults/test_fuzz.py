"""A short run of `python -m tests.faults.fuzz`, and tests of the defects that it found."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages import alter_configs, create_topics, incremental_alter_configs
from oncelog_protocol.messages.describe_configs import (
    DescribeConfigsRequest,
    DescribeConfigsResource,
)
from oncelog_protocol.messages.describe_groups import DescribeGroupsRequest
from oncelog_protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from tests.faults.fuzz.frames import Drawing
from tests.faults.fuzz.running import DEFECTS, fuzz, prepare
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK, create
from tests.harness.writing import find_coordinator

FRAMES = 4_000
LONG = "a" * 32_767


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Oncelog]:
    with Oncelog(tmp_path_factory.mktemp("fuzz"), QUICK) as running:
        prepare(running)
        yield running


def test_random_frames_affect_no_other_client(broker: Oncelog) -> None:
    """The frames are drawn from the tables of the protocol. Afterwards, other clients and requests
    for the state that the frames left behind still get their responses."""
    found = asyncio.run(fuzz(broker, FRAMES, seed=1))
    assert found.errors == []
    assert found.frames >= FRAMES
    assert found.rounds > 0
    assert found.audits > 0
    assert 0 < found.closed < found.answers


def test_the_same_seed_draws_the_same_frames() -> None:
    first, again, other = (Drawing(seed) for seed in (5, 5, 6))
    frames = [first.frame().data for _ in range(200)]
    assert [again.frame().data for _ in range(200)] == frames
    assert [other.frame().data for _ in range(200)] != frames


def requests_with_long_words(topic: str) -> list[tuple[Any, int]]:
    """Return requests in old versions. The broker refuses each with a message that quotes a word of
    32,767 bytes."""
    resource = alter_configs.AlterConfigsResource
    two = incremental_alter_configs.AlterConfigsResource
    new = create_topics.CreatableTopic
    alter, change = alter_configs.AlterableConfig, incremental_alter_configs.AlterableConfig
    long_value = create_topics.CreatableTopicConfig("retention.ms", LONG)
    return [
        (alter_configs.AlterConfigsRequest([resource(2, LONG, [])]), 1),
        (alter_configs.AlterConfigsRequest([resource(4, LONG, [])]), 1),
        (alter_configs.AlterConfigsRequest([resource(2, topic, [alter(LONG, "x")])]), 1),
        (alter_configs.AlterConfigsRequest([resource(2, topic, [alter("retention.ms", LONG)])]), 1),
        (
            incremental_alter_configs.IncrementalAlterConfigsRequest(
                [two(2, topic, [change(LONG, 0, "x")])]
            ),
            0,
        ),
        (create_topics.CreateTopicsRequest([new(LONG, 1, 1)]), 2),
        (create_topics.CreateTopicsRequest([new("new", 1, 1, configs=[long_value])]), 2),
        (DescribeConfigsRequest([DescribeConfigsResource(4, LONG, None)]), 1),
        (DescribeConfigsRequest([DescribeConfigsResource(2, LONG, None)]), 1),
    ]


@pytest.mark.parametrize("which", range(9))
def test_an_error_message_that_quotes_a_long_word_is_shortened_and_sent(
    broker: Oncelog, which: int
) -> None:
    """The connection stays open, and the broker logs no defect."""
    with Wire(broker.address) as wire:
        request, version = requests_with_long_words("fz-0")[which]
        response = wire.call(request, version)
        parts = next(
            value
            for name in ("responses", "topics", "results")
            if (value := getattr(response, name, None))
        )
        assert parts[0].error_code != ErrorCode.NONE
        wire.call(request, version)
    assert not any(defect in broker.log.read_text(errors="replace") for defect in DEFECTS)


def test_a_config_list_cannot_grow_beyond_what_describe_configs_can_return(broker: Oncelog) -> None:
    """The broker refuses an APPEND to a value that DescribeConfigs v1 could no longer return."""
    part = incremental_alter_configs.AlterConfigsResource
    change = incremental_alter_configs.AlterableConfig
    name = "leader.replication.throttled.replicas"
    with Wire(broker.address) as wire:
        create(wire, "grows")
        for filled in ("a" * 20_000, "b" * 20_000):
            request = incremental_alter_configs.IncrementalAlterConfigsRequest(
                [part(2, "grows", [change(name, 2, filled)])]
            )
            assert wire.call(request, 0).responses[0].error_code == ErrorCode.INVALID_CONFIG
        for version in range(1, 5):
            described = DescribeConfigsRequest([DescribeConfigsResource(2, "grows", None)])
            assert wire.call(described, version).results[0].error_code == ErrorCode.NONE


@pytest.mark.parametrize("size", [32_730, 32_731, 32_767])
def test_a_member_with_a_very_long_client_id_does_not_block_its_group(
    broker: Oncelog, size: int
) -> None:
    """The group's leader gets its response, and DescribeGroups works in all versions."""
    group = f"long-{size}"
    with Wire(broker.address, "c" * size) as wire, Wire(broker.address) as other:
        find_coordinator(wire, group, 0)
        request = JoinGroupRequest(
            group_id=group,
            session_timeout_ms=6_000,
            rebalance_timeout_ms=6_000,
            protocol_type="consumer",
            protocols=[JoinGroupRequestProtocol("range", b"")],
        )
        joined = wire.call(request, 3)
        assert joined.error_code == ErrorCode.NONE
        assert joined.leader == joined.member_id
        for version in range(7):
            (described,) = other.call(DescribeGroupsRequest([group]), version).groups
            assert described.members[0].member_id == joined.member_id
            assert described.members[0].client_id == "c" * size
