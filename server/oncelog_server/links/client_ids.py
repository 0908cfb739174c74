"""The client ids of brokers in requests to each other. They are for logs, never a credential."""

from __future__ import annotations

_PREFIX = "broker-"
_SUFFIX = "-markers"
_ADDING_SUFFIX = "-partitions"
_CALLS_SUFFIX = "-coordinators"


def markers_client_id(broker_id: int) -> str:
    """Return the client id of the connection for WriteTxnMarkers."""
    return f"{_PREFIX}{broker_id}{_SUFFIX}"


def adding_client_id(broker_id: int) -> str:
    """Return the client id of the connection for AddPartitionsToTxn."""
    return f"{_PREFIX}{broker_id}{_ADDING_SUFFIX}"


def calls_client_id(broker_id: int) -> str:
    """Return the client id of the connection for CoordinatorCall."""
    return f"{_PREFIX}{broker_id}{_CALLS_SUFFIX}"


def fetcher_client_id(broker_id: int) -> str:
    """Return the client id of the connection for Fetch. It is that of Kafka's first fetcher."""
    return f"{_PREFIX}{broker_id}-fetcher-0"


def broker_of(client_id: str) -> int | None:
    """Return the broker id in a client id of a connection for WriteTxnMarkers, None for any other
    client id."""
    number = client_id.removeprefix(_PREFIX).removesuffix(_SUFFIX)
    is_name = number.isascii() and number.isdigit()
    return int(number) if is_name and client_id == f"{_PREFIX}{number}{_SUFFIX}" else None
