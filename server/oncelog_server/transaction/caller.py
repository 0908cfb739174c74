"""The client of a request. Its client id is information for operators, never a credential. Only the
principal is proven."""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

# Prefix of the default client id of Kafka's admin client. A number follows the prefix. Only this
# prefix distinguishes kafka-transactions and Admin.fenceProducers from a producer.
_ADMIN_PREFIX: Final = "adminclient-"


class ClientRequest(Protocol):
    """A request with its connection."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_address(self) -> str: ...

    @property
    def principal(self) -> str:
        """Return the principal as text (`User:alice`), an empty text if it is User:ANONYMOUS."""
        ...


class Client(NamedTuple):
    """The part of a caller that the coordinator keeps. `client_address` has Kafka's form:
    `/127.0.0.1`. `principal` is empty for User:ANONYMOUS."""

    client_id: str
    client_address: str
    principal: str = ""


def client_of(caller: ClientRequest) -> Client:
    """Return the client of a request. A reference to the request itself would keep its connection
    in memory."""
    return Client(caller.client_id, caller.client_address, caller.principal)


def quota_client(caller: ClientRequest) -> str:
    """Return the client that the quota of producer ids counts: the principal, or the address of a
    client that has not authenticated."""
    return caller.principal or caller.client_address


def is_admin_tool(caller: ClientRequest) -> bool:
    """Return True if the client id is that of Kafka's admin client. Any client may use this id, so
    the result may choose a label for operators, but must never grant a permission."""
    number = caller.client_id.removeprefix(_ADMIN_PREFIX)
    return number.isdecimal() and caller.client_id != number
