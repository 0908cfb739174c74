"""The rights of the APIs about consumer groups."""

from __future__ import annotations

from typing import Any, Final

from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
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
from oncelog_server.security.resources import Operation
from tests.server.handlers.rights.case import (
    GROUP,
    ID,
    TOPIC,
    Case,
    Outcome,
    always,
    at,
    cluster,
    group,
    hidden,
    need,
    topic,
    transactional_id,
)

READ, DESCRIBE = Operation.READ, Operation.DESCRIBE
UNKNOWN_MEMBER: Final = at("", ErrorCode.UNKNOWN_MEMBER_ID)
UNSUPPORTED: Final = at("", ErrorCode.UNSUPPORTED_VERSION)


def coordinator(key_type: int, key: str) -> Any:
    return always(find_coordinator.FindCoordinatorRequest(key, key_type, [key]))


def committed(topic_id: bytes) -> Any:
    partitions = [offset_commit.OffsetCommitRequestPartition(0, 7)]
    topics = [offset_commit.OffsetCommitRequestTopic(TOPIC, topic_id, partitions)]
    return offset_commit.OffsetCommitRequest(GROUP, topics=topics)


def fetched(topic_id: bytes) -> Any:
    return offset_fetch.OffsetFetchRequest(
        GROUP,
        [offset_fetch.OffsetFetchRequestTopic(TOPIC, [0])],
        [
            offset_fetch.OffsetFetchRequestGroup(
                GROUP, topics=[offset_fetch.OffsetFetchRequestTopics(TOPIC, topic_id, [0])]
            )
        ],
    )


ALL_OFFSETS: Final = always(
    offset_fetch.OffsetFetchRequest(
        GROUP, None, [offset_fetch.OffsetFetchRequestGroup(GROUP, topics=None)]
    )
)
OFFSETS_DELETED: Final = always(
    offset_delete.OffsetDeleteRequest(
        GROUP,
        [
            offset_delete.OffsetDeleteRequestTopic(
                TOPIC, [offset_delete.OffsetDeleteRequestPartition(0)]
            )
        ],
    )
)
JOINED: Final = always(join_group.JoinGroupRequest(GROUP))
SYNCED: Final = always(
    sync_group.SyncGroupRequest(GROUP, 1, "member", protocol_type="consumer", protocol_name="range")
)
BEATEN: Final = always(heartbeat.HeartbeatRequest(GROUP, 1, "member"))
LEFT: Final = always(
    leave_group.LeaveGroupRequest(GROUP, "member", [leave_group.MemberIdentity("member")])
)
DESCRIBED: Final = always(describe_groups.DescribeGroupsRequest([GROUP]))
DELETED: Final = always(delete_groups.DeleteGroupsRequest([GROUP]))
CONSUMER_BEATEN: Final = always(
    consumer_group_heartbeat.ConsumerGroupHeartbeatRequest(GROUP, subscribed_topic_names=[TOPIC])
)
CONSUMER_DESCRIBED: Final = always(
    consumer_group_describe.ConsumerGroupDescribeRequest(
        [GROUP], include_authorized_operations=True
    )
)
SHARE_BEATEN: Final = always(
    share_group_heartbeat.ShareGroupHeartbeatRequest(GROUP, subscribed_topic_names=[TOPIC])
)
LISTED: Final = always(list_groups.ListGroupsRequest())


def listed(response: Any) -> Outcome:
    return frozenset(found.group_id for found in response.groups)


def offsets(response: Any) -> Outcome:
    """Return the codes for the whole group, and the names of the topics with an offset."""
    groups = getattr(response, "groups", None) or [response]
    codes = {found.error_code for found in groups if found.error_code}
    return frozenset(codes | {topic.name or TOPIC for found in groups for topic in found.topics})


K = ApiKey
GROUP_DENIED: Final = frozenset({ErrorCode.GROUP_AUTHORIZATION_FAILED})
COMMITTED: Final = "topics.partitions"


def fetching(place: str, topics: str, versions: range) -> Case:
    """Return a row of OffsetFetch: the places of the codes of the group and of its topics."""
    needs = (need(group(DESCRIBE), place), need(topic(DESCRIBE), topics))
    return Case(K.OFFSET_FETCH, fetched, needs, versions=versions)


def finding(place: str, versions: range) -> tuple[Case, ...]:
    """Return the rows of FindCoordinator with their codes at a place."""
    of_group = need(group(DESCRIBE), place)
    of_id = need(transactional_id(DESCRIBE), place)
    since_1 = range(max(1, versions.start), versions.stop)
    own = range(since_1.start, min(6, versions.stop))
    return (
        Case(K.FIND_COORDINATOR, coordinator(0, GROUP), (of_group,), versions=versions),
        Case(K.FIND_COORDINATOR, coordinator(1, ID), (of_id,), versions=since_1),
        # The coordinator of the transactions of a group, which only oncelog has.
        Case(K.FIND_COORDINATOR, coordinator(2, GROUP), (of_group,), versions=own),
    )


CASES: Final = (
    *finding("", range(4)),
    *finding("coordinators", range(4, 7)),
    Case(
        K.JOIN_GROUP,
        JOINED,
        (need(group(READ)),),
        at("", ErrorCode.INVALID_SESSION_TIMEOUT),
    ),
    Case(K.SYNC_GROUP, SYNCED, (need(group(READ)),), UNKNOWN_MEMBER),
    Case(K.HEARTBEAT, BEATEN, (need(group(READ)),), UNKNOWN_MEMBER),
    Case(K.LEAVE_GROUP, LEFT, (need(group(READ)),), UNKNOWN_MEMBER, range(3)),
    Case(
        K.LEAVE_GROUP,
        LEFT,
        (need(group(READ)),),
        at("members", ErrorCode.UNKNOWN_MEMBER_ID),
        range(3, 6),
    ),
    Case(K.DESCRIBE_GROUPS, DESCRIBED, (need(group(DESCRIBE), "groups"),)),
    # The protocols that oncelog does not have are refused before any look at rights.
    Case(K.CONSUMER_GROUP_HEARTBEAT, CONSUMER_BEATEN, (), UNSUPPORTED),
    Case(
        K.CONSUMER_GROUP_DESCRIBE,
        CONSUMER_DESCRIBED,
        (),
        at("groups", ErrorCode.UNSUPPORTED_VERSION),
    ),
    Case(K.SHARE_GROUP_HEARTBEAT, SHARE_BEATEN, (), UNSUPPORTED),
    Case(K.DELETE_GROUPS, DELETED, (need(group(Operation.DELETE), "results"),)),
    Case(
        K.LIST_GROUPS,
        LISTED,
        (hidden(group(DESCRIBE)),),
        frozenset({GROUP}),
        outcome=listed,
    ),
    Case(
        K.LIST_GROUPS,
        LISTED,
        (hidden(cluster(DESCRIBE)),),
        frozenset({GROUP}),
        outcome=listed,
    ),
    Case(
        K.OFFSET_COMMIT,
        committed,
        (need(group(READ), COMMITTED), need(topic(READ), COMMITTED)),
    ),
    fetching("topics.partitions", "topics.partitions", range(1, 2)),
    fetching("", "topics.partitions", range(2, 8)),
    fetching("groups", "groups.topics.partitions", range(8, 11)),
    Case(
        K.OFFSET_FETCH,
        ALL_OFFSETS,
        (need(group(DESCRIBE))._replace(denied=GROUP_DENIED), hidden(topic(DESCRIBE))),
        frozenset({TOPIC}),
        range(2, 11),
        offsets,
    ),
    Case(
        K.OFFSET_DELETE,
        OFFSETS_DELETED,
        (need(group(Operation.DELETE)), need(topic(READ), "topics.partitions")),
    ),
)
