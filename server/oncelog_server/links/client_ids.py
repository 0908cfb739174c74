"""What brokers call themselves at each other: for people who read logs, never a credential."""

from __future__ import annotations

_PREFIX = "broker-"
_SUFFIX = "-markers"


def markers_client_id(broker_id: int) -> str:
    """Of the link that carries WriteTxnMarkers."""
    return f"{_PREFIX}{broker_id}{_SUFFIX}"


def broker_of(client_id: str) -> int | None:
    """The broker that a client calls itself, None if it does not."""
    number = client_id.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    is_name = number.isascii() and number.isdigit()
    return int(number) if is_name and client_id == f"{_PREFIX}{number}{_SUFFIX}" else None
