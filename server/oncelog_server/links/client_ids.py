"""The client ids of brokers in requests to each other. They are for logs, never a credential."""

from __future__ import annotations

_PREFIX = "broker-"
_SUFFIX = "-markers"


def markers_client_id(broker_id: int) -> str:
    """Return the client id of the connection for WriteTxnMarkers."""
    return f"{_PREFIX}{broker_id}{_SUFFIX}"


def broker_of(client_id: str) -> int | None:
    """Return the broker id in a client id, None if the client id is not a broker's."""
    number = client_id.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    is_name = number.isascii() and number.isdigit()
    return int(number) if is_name and client_id == f"{_PREFIX}{number}{_SUFFIX}" else None
