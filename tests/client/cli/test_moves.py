"""Plans of moves and their steps, when brokers stop and other requests come in between."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner

from oncelog_client.admin import Admin, AlterConfigOp, PartitionReassignment
from oncelog_client.cli import strays
from oncelog_client.cli.cluster_state import ClusterState, sees_all_topics
from oncelog_client.cli.drain import drain, replicas_plan
from oncelog_client.cli.move_checks import stalled_moves
from oncelog_client.cli.reassigning import Plan, summary
from oncelog_client.cli.rebalance import balanced_plan
from oncelog_client.cli.throttling import remove_throttle
from oncelog_client.core.acl_bindings import (
    AccessControlEntry,
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    AclResourceType,
    PatternType,
    ResourcePattern,
)
from oncelog_client.core.move_throttles import RATES
from oncelog_client.core.replica_layout import Move
from oncelog_client.core.strays import Stray
from oncelog_client.errors import KafkaError
from oncelog_client.values import Node, PartitionInfo, TopicPartition
from oncelog_protocol.errors import ErrorCode

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


def state(*partitions: PartitionInfo, alive: Iterable[int] = (1, 2)) -> ClusterState:
    return ClusterState(
        {broker: Node(broker, "h", 1, None) for broker in alive},
        {},
        {TopicPartition(info.topic, info.partition): info for info in partitions},
        {},
    )


def info(partition: int, leader: int | None, *replicas: int) -> PartitionInfo:
    return PartitionInfo("t", partition, leader, 1, replicas, replicas)


def test_a_partition_without_a_leader_is_not_in_the_plan() -> None:
    """Its move would not end, because nothing can copy its records."""
    led = [info(number, 1, 1) for number in (1, 2, 3)]
    plan, _ = balanced_plan(state(info(0, None, 1), *led), {})
    assert plan.moves
    assert A not in {move.place for move in plan.moves}


@pytest.mark.parametrize("alive", [(1, 2, 3), (2, 3)])
def test_a_drain_waits_for_no_partition_without_a_leader(alive: tuple[int, ...]) -> None:
    """Its move would not end, even if the broker itself is alive."""
    move = PartitionReassignment((1, 2), (2,), (1,))
    present = state(info(0, None, 1), info(1, None, 1), info(2, 2, 1, 2), alive=alive)
    plan, left = replicas_plan(present._replace(moving={B: move}), 1, {})
    assert [(move.place.partition, move.new) for move in plan.moves] == [(2, (3, 2))]
    assert plan.in_progress == []
    assert left == [A, B]


def test_a_move_of_a_topic_that_the_user_may_not_describe_is_examined() -> None:
    """A list of moves has the topics that a list of topics lacks."""
    present = state(alive=(1,))._replace(moving={A: PartitionReassignment((1, 2), (2,), ())})
    (row,) = asyncio.run(stalled_moves(cast(Admin, None), present))
    assert row.what == ["t-0 (broker 2 is not alive)"]


@pytest.mark.parametrize("flags", [["--cancel"], ["--execute", "--throttle", "5"]])
def test_a_drain_of_leaders_ignores_no_option(flags: list[str]) -> None:
    done = CliRunner().invoke(drain, ["1", "--leaders-only", *flags])
    assert done.exit_code == 2
    assert "--leaders-only moves no replica" in done.output


def test_a_leader_that_is_not_alive_does_not_count() -> None:
    plan = Plan([Move(A, (1,), (2,)), Move(B, (1,), (3,))], (), {}, "")
    present = state(info(0, 1, 1), info(1, 1, 1))
    assert "1 leader to move" in summary(plan, present, {})


@pytest.mark.parametrize("has_rates", [True, False])
def test_rates_are_removed_without_a_topic_only_if_the_caller_has_set_them(has_rates: bool) -> None:
    changed: list[Mapping[Any, Sequence[AlterConfigOp]]] = []

    class Brokers:
        async def alter_configs(self, changes: Mapping[Any, Sequence[AlterConfigOp]]) -> None:
            changed.append(changes)

    admin = cast(Admin, Brokers())
    removed = asyncio.run(remove_throttle(admin, [], [1], has_rates=has_rates))
    assert removed is has_rates
    names = [[op.name for op in ops] for changes in changed for ops in changes.values()]
    assert names == ([list(RATES)] if has_rates else [])


class Rules:
    """A cluster that returns these access rules, or raises the error `code` if it is given."""

    def __init__(self, code: ErrorCode | None, rules: list[AclBinding], *hidden: str) -> None:
        self._code = code
        self._rules = rules
        self._hidden = hidden

    async def describe_acls(self, chosen: AclBindingFilter) -> list[AclBinding]:
        if self._code is not None:
            raise KafkaError("", self._code)
        return self._rules

    async def hidden_topics(self, names: list[str]) -> set[str]:
        return set(names) & set(self._hidden)


def denying(topic: str) -> AclBinding:
    return AclBinding(
        ResourcePattern(AclResourceType.TOPIC, topic, PatternType.LITERAL),
        AccessControlEntry("User:u", "*", AclOperation.ALL, AclPermissionType.DENY),
    )


@pytest.mark.parametrize(
    ("rules", "sees_all"),
    [
        (Rules(ErrorCode.SECURITY_DISABLED, []), True),
        (Rules(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, []), False),
        (Rules(None, [denying("t")]), True),  # as a super user
        (Rules(None, [denying("t")], "t"), False),
        (Rules(None, [denying(str(number)) for number in range(1_200)], "999"), False),
    ],
)
def test_a_user_surely_sees_all_topics_if_no_rule_hides_a_name(
    rules: Rules, sees_all: bool
) -> None:
    assert asyncio.run(sees_all_topics(cast(Admin, rules))) is sees_all


def test_a_deletion_that_is_killed_leaves_a_folder_that_the_broker_deletes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unique = "0123456789abcdef" * 2
    (tmp_path / f"t-0.{unique}-stray").mkdir()

    def killed(path: Path) -> None:
        raise SystemExit

    with monkeypatch.context() as patch:
        patch.setattr("shutil.rmtree", killed)
        with pytest.raises(SystemExit):
            strays.remove(tmp_path, Stray(f"t-0.{unique}-stray", "t", 0, None, 0))
    assert [path.name for path in tmp_path.iterdir()] == [f"t-0.{unique}-delete"]
