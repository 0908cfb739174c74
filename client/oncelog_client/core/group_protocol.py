"""Encodes and decodes the messages that members of a group exchange through the coordinator."""

from __future__ import annotations

from collections.abc import Iterable

from oncelog_client.errors import KafkaError
from oncelog_client.values import TopicPartition
from oncelog_protocol.errors import ErrorCode, ProtocolError
from oncelog_protocol.internal import consumer_protocol
from oncelog_protocol.messages.join_group import JoinGroupResponse

from .assignors import MemberSubscription, generation_in_user_data


def rows_by_topic(partitions: Iterable[TopicPartition]) -> list[consumer_protocol.TopicPartition]:
    """Return partitions in the form of the consumer protocol: topic by topic."""
    topics: dict[str, list[int]] = {}
    for topic, partition in sorted(partitions):
        topics.setdefault(topic, []).append(partition)
    return [
        consumer_protocol.TopicPartition(topic=topic, partitions=numbers)
        for topic, numbers in topics.items()
    ]


def _from_rows(rows: Iterable[consumer_protocol.TopicPartition]) -> tuple[TopicPartition, ...]:
    return tuple(
        TopicPartition(row.topic, partition) for row in rows for partition in row.partitions
    )


def decode_assignment(data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions of a SyncGroup response. Empty bytes mean no partitions. Raises
    ProtocolError."""
    if not data:
        return ()
    return _from_rows(consumer_protocol.decode_assignment(data).assigned_partitions)


def own_assignment(group_id: str, data: bytes) -> tuple[TopicPartition, ...]:
    """Return the partitions that a SyncGroup response assigns to this member. Raises KafkaError for
    unreadable bytes. The broker does not check the bytes of the leader's client."""
    try:
        return decode_assignment(data)
    except ProtocolError as error:
        raise KafkaError(
            f"group {group_id}: the assignment by the group's leader cannot be read ({error}): "
            "check the client that leads the group, then poll to rejoin",
            ErrorCode.INCONSISTENT_GROUP_PROTOCOL,
        ) from error


def decode_members(response: JoinGroupResponse) -> dict[str, MemberSubscription]:
    """Return the subscriptions of all members, for the leader's assignor. Raises KafkaError for a
    member with an unreadable subscription."""
    members: dict[str, MemberSubscription] = {}
    for member in response.members:
        try:
            subscription = consumer_protocol.decode_subscription(member.metadata)
        except ProtocolError as error:
            message = f"the subscription of {member.member_id} cannot be read: {error}"
            raise KafkaError(message, ErrorCode.INCONSISTENT_GROUP_PROTOCOL) from error
        generation_id = subscription.generation_id
        if generation_id < 0:
            generation_id = generation_in_user_data(subscription.user_data)
        members[member.member_id] = MemberSubscription(
            topics=frozenset(subscription.topics),
            owned=_from_rows(subscription.owned_partitions),
            generation_id=generation_id,
            group_instance_id=member.group_instance_id,
        )
    return members
