"""The client of a request, as the request describes it: information for operators, never a
credential."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

# Prefix of the default client id of Kafka's admin client; a number follows. Nothing else shows that
# a request comes from kafka-transactions or Admin.fenceProducers, and not from a producer.
_ADMIN_PREFIX: Final = "adminclient-"


class ClientRequest(Protocol):
    """A request with its connection."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_address(self) -> str: ...


class Client(NamedTuple):
    """The remembered part of a caller. `client_address` as Kafka shows it: `/127.0.0.1`."""

    client_id: str
    client_address: str


def client_of(caller: ClientRequest) -> Client:
    """Return the remembered part of a request. The request itself would keep its connection in
    memory."""
    return Client(caller.client_id, caller.client_address)


def is_admin_tool(caller: ClientRequest) -> bool:
    """Return whether the client id is that of Kafka's admin client. Any client may use this id, so
    it may decide about a label, never about a right."""
    number = caller.client_id.removeprefix(_ADMIN_PREFIX)
    return number.isdecimal() and caller.client_id != number
