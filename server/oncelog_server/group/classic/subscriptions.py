"""The topics that a consumer subscribes to, read from its group metadata.

Source: ConsumerProtocolSubscription. It is read as version 0, a prefix of all later versions, as in
Kafka.
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
