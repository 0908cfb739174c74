"""Reads the topics that a consumer subscribes to from the consumer's group metadata.

Source: ConsumerProtocolSubscription. The bytes are read as version 0, as in Kafka, because version
0 is a prefix of all later versions.
"""

from __future__ import annotations

from oncelog_protocol.errors import ProtocolError
from oncelog_protocol.internal.consumer_protocol import ConsumerProtocolSubscription
from oncelog_protocol.internal.versions import decode_body, read_version


def subscribed_topics(metadata: bytes) -> frozenset[str] | None:
    """Return the topics, or None if these bytes are not a consumer's subscription."""
    try:
        read_version("ConsumerProtocolSubscription", metadata)
        subscription = decode_body(ConsumerProtocolSubscription, 0, metadata, exact=False)
    except ProtocolError:
        return None
    return frozenset(subscription.topics)
