"""The messages that a group's members send to each other. The coordinator only stores these
messages.

Source: Kafka's ConsumerProtocolSubscription and ConsumerProtocolAssignment, versions 0 to 3.
"""

from __future__ import annotations

from typing import Final

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.schema import message, struct
from oncelog_protocol.types import Buffer, array, bytestring, int32, string

from .versions import decode_body, encode_versioned, read_version

VERSIONS: Final = range(0, 4)
LATEST: Final = VERSIONS[-1]


@struct
class TopicPartition:
    """Partitions of one topic."""

    topic: str = string()
    partitions: list[int] = array(int32)


@message(VERSIONS)
class ConsumerProtocolSubscription:
    """A member's subscription, and (KIP-429, KIP-792) its partitions with their generation."""

    topics: list[str] = array(string)
    user_data: bytes | None = bytestring(nullable_since=0, default=None)
    owned_partitions: list[TopicPartition] = array(TopicPartition, since=1)
    generation_id: int = int32(since=2, default=-1)
    rack_id: str | None = string(since=3, nullable_since=3, default=None)


@message(VERSIONS)
class ConsumerProtocolAssignment:
    """The assignment of a member."""

    assigned_partitions: list[TopicPartition] = array(TopicPartition)
    user_data: bytes | None = bytestring(nullable_since=0, default=None)


def encode_subscription(subscription: ConsumerProtocolSubscription, version: int = LATEST) -> bytes:
    """Return the `metadata` of a JoinGroup request's protocol."""
    return encode_versioned(subscription, version)


def decode_subscription(data: Buffer) -> ConsumerProtocolSubscription:
    """Decode a member's subscription. The known fields of a newer version are read, as in Java.

    Raises ProtocolError.
    """
    version = _known_version("ConsumerProtocolSubscription", data)
    return decode_body(ConsumerProtocolSubscription, version, data, exact=False)


def encode_assignment(assignment: ConsumerProtocolAssignment, version: int = LATEST) -> bytes:
    """Return the `assignment` of a SyncGroup request and response."""
    return encode_versioned(assignment, version)


def decode_assignment(data: Buffer) -> ConsumerProtocolAssignment:
    """Decode a member's assignment. The known fields of a newer version are read, as in Java.
    Raises ProtocolError, also for empty bytes. A member gets empty bytes if the leader's assignment
    omits the member.
    """
    version = _known_version("ConsumerProtocolAssignment", data)
    return decode_body(ConsumerProtocolAssignment, version, data, exact=False)


def _known_version(part: str, data: Buffer) -> int:
    version = read_version(part, data)
    if version < 0:
        raise ProtocolError(f"a {part} of version {version}")
    return min(version, LATEST)
