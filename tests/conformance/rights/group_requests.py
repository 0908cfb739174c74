"""The requests about groups and their coordinators that every user sends."""

from __future__ import annotations

from typing import Any

from oncelog_protocol.messages import (
    consumer_group_describe,
    consumer_group_heartbeat,
    delete_groups,
    describe_groups,
    find_coordinator,
    heartbeat,
    join_group,
    leave_group,
    list_groups,
    offset_commit,
    offset_delete,
    offset_fetch,
    share_group_heartbeat,
    sync_group,
)
from tests.conformance.rights.templates import (
    GROUPS,
    IDS,
    MISSING,
    NAMES,
    TOPICS,
    User,
    constant,
    template,
)

for _type, _keys in ((0, GROUPS), (1, IDS)):
    for _key in _keys:
        constant(
            find_coordinator.FindCoordinatorRequest(_key, _type, list(_keys)),
            f"find_coordinator_{_type}_{_key}",
            since=1,
        )
for _group in GROUPS:
    constant(join_group.JoinGroupRequest(_group), f"join_{_group}")
constant(sync_group.SyncGroupRequest("pay", 1, "member"), "sync_without_protocol")
constant(
    sync_group.SyncGroupRequest("orders", 1, "member", None, "consumer", "range"), "sync_group"
)
constant(heartbeat.HeartbeatRequest("orders", 1, "member"), "heartbeat")
constant(
    leave_group.LeaveGroupRequest("pay", "member", [leave_group.MemberIdentity("member")]),
    "leave_group",
)
constant(
    describe_groups.DescribeGroupsRequest(list(GROUPS), include_authorized_operations=True),
    "describe_groups",
)
constant(
    delete_groups.DeleteGroupsRequest(["paid", "orders-none"]), "delete_missing_groups", until=2
)
constant(list_groups.ListGroupsRequest(), "list_groups")


def _commit(user: User, group: str, *names: str) -> Any:
    return offset_commit.OffsetCommitRequest(
        group,
        topics=[
            offset_commit.OffsetCommitRequestTopic(
                name,
                user.topic_ids[name],
                [offset_commit.OffsetCommitRequestPartition(0, user.number)],
            )
            for name in names
        ],
    )


@template(until=9)
def commit_to_pay(user: User) -> Any:
    return _commit(user, "pay", *NAMES)


@template()
def commit_to_orders(user: User) -> Any:
    return _commit(user, "orders", *TOPICS)


@template()
def fetch_offsets(user: User) -> Any:
    return offset_fetch.OffsetFetchRequest(
        "pay",
        [offset_fetch.OffsetFetchRequestTopic(name, [0]) for name in TOPICS],
        [
            offset_fetch.OffsetFetchRequestGroup(
                group,
                topics=[
                    offset_fetch.OffsetFetchRequestTopics(name, user.topic_ids[name], [0])
                    for name in TOPICS
                ],
            )
            for group in GROUPS
        ],
    )


constant(
    offset_fetch.OffsetFetchRequest(
        "orders",
        None,
        [offset_fetch.OffsetFetchRequestGroup(group, topics=None) for group in GROUPS],
    ),
    "fetch_all_offsets",
    since=2,
)
constant(
    offset_delete.OffsetDeleteRequest(
        "pay",
        [
            offset_delete.OffsetDeleteRequestTopic(
                name, [offset_delete.OffsetDeleteRequestPartition(partition)]
            )
            for name, partition in (("pay", 0), ("orders", 7), (MISSING, 0))
        ],
    ),
    "delete_offsets",
)
constant(
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest("pay", subscribed_topic_names=["pay"]),
    "consumer_group_heartbeat",
)
constant(
    consumer_group_describe.ConsumerGroupDescribeRequest(
        list(GROUPS), include_authorized_operations=True
    ),
    "consumer_group_describe",
)
constant(
    share_group_heartbeat.ShareGroupHeartbeatRequest("pay", subscribed_topic_names=["pay"]),
    "share_group_heartbeat",
)
