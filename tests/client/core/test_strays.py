"""A stray folder can be removed only if nothing is lost."""

from __future__ import annotations

import pytest

from oncelog_client.core.strays import Stray, Verdict, judge, parse_stray
from oncelog_client.errors import KafkaError
from oncelog_client.values import PartitionInfo
from oncelog_protocol.errors import ErrorCode

ID, OTHER_ID = b"i" * 16, b"o" * 16
UNIQUE = "0123456789abcdef" * 2


def stray(topic_id: bytes | None = ID, partition: int = 0) -> Stray:
    return Stray(f"t-{partition}.{UNIQUE}-stray", "t", partition, topic_id, 1)


def info(leader: int | None, replicas: tuple[int, ...], in_sync: tuple[int, ...]) -> PartitionInfo:
    return PartitionInfo("t", 0, leader, 1, replicas, in_sync)


@pytest.mark.parametrize(
    ("found", "partition", "verdict"),
    [
        (stray(), info(1, (1, 3), (3, 1)), Verdict(True, "whole on broker 1, 3")),
        (stray(), info(1, (1, 3), (1,)), Verdict(False, "not in sync: broker 3")),
        (stray(), info(None, (1,), (1,)), Verdict(False, "not in sync: broker unknown")),
        (stray(), info(None, (), ()), Verdict(False, "not in sync: broker unknown")),
        (
            stray(),
            info(1, (1, 2), (1, 2)),
            Verdict(False, "broker 2 has a replica of the partition again"),
        ),
        (stray(ID, 7), info(1, (1,), (1,)), Verdict(False, "the topic has no such partition")),
        (
            stray(None),
            info(1, (1,), (1,)),
            Verdict(False, "the topic id in partition.metadata cannot be read"),
        ),
    ],
)
def test_a_folder_is_removable_if_the_cluster_does_not_need_it(
    found: Stray, partition: PartitionInfo, verdict: Verdict
) -> None:
    assert judge(found, {ID: {0: partition}}, 2) == verdict


@pytest.mark.parametrize(
    ("code", "flag", "verdict"),
    [
        (ErrorCode.UNKNOWN_TOPIC_ID, False, Verdict(False, "the cluster has no such topic")),
        (ErrorCode.UNKNOWN_TOPIC_ID, True, Verdict(True, "the cluster has no such topic")),
        *(
            (code, True, Verdict(False, f"the topic is not known: {code.name}"))
            for code in (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.INVALID_REQUEST)
        ),
    ],
)
def test_a_topic_with_an_error_counts_as_deleted_only_if_the_operator_says_so(
    code: ErrorCode, flag: bool, verdict: Verdict
) -> None:
    topics = {ID: KafkaError("", code)}
    assert judge(stray(), topics, 2, unknown_topics=flag) == verdict


def test_a_topic_that_the_response_lacks_is_not_deleted() -> None:
    verdict = Verdict(False, "the broker did not describe the topic")
    assert judge(stray(OTHER_ID), {}, 2, unknown_topics=True) == verdict


@pytest.mark.parametrize(
    ("name", "parsed"),
    [
        (f"t-0.{UNIQUE}-stray", ("t", 0)),
        (f"a.b-c_d-12.{UNIQUE}-stray", ("a.b-c_d", 12)),
        (f"t-0.{UNIQUE}-delete", None),
        ("t-0", None),
        (f"t-0.{UNIQUE[:-1]}-stray", None),
        (f"../t-0.{UNIQUE}-stray", None),
    ],
)
def test_only_names_of_stray_folders_are_parsed(name: str, parsed: tuple[str, int] | None) -> None:
    assert parse_stray(name) == parsed
