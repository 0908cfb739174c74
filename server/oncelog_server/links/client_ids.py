"""What brokers call themselves at each other: for people who read logs, never a credential."""

from __future__ import annotations

_PREFIX = "broker-"
_SUFFIX = "-markers"


def markers_client_id(broker_id: int) -> str:
    """Of the link that carries WriteTxnMarkers."""
    return f"{_PREFIX}{broker_id}{_SUFFIX}"


def is_broker(client_id: str) -> bool:
    """Whether a client calls itself a broker."""
    return client_id.startswith(_PREFIX) and client_id.endswith(_SUFFIX)
