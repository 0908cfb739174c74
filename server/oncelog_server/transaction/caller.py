"""The sender of a request, as the request names it: for people, never a credential."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

# The client id of Kafka's admin client, with a number, unless it is configured. Nothing else in the
# request of kafka-transactions and Admin.fenceProducers says that no producer begins to write.
_ADMIN_PREFIX: Final = "adminclient-"


class ClientRequest(Protocol):
    """A request on its connection."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_address(self) -> str: ...


class Client(NamedTuple):
    """What is remembered of one. `client_address` as Kafka shows it: `/127.0.0.1`."""

    client_id: str
    client_address: str


def client_of(caller: ClientRequest) -> Client:
    """A request is not kept, and with it its connection: only what it says."""
    return Client(caller.client_id, caller.client_address)


def is_admin_tool(caller: ClientRequest) -> bool:
    """Return whether the client id is that of Kafka's admin client. Any client may use it: good for
    a label, never for a right."""
    number = caller.client_id.removeprefix(_ADMIN_PREFIX)
    return number.isdecimal() and caller.client_id != number
