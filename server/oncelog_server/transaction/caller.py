"""Who sent a request, as far as a request tells: for people, never a credential."""

from __future__ import annotations

from typing import NamedTuple, Protocol


class Caller(Protocol):
    """A request on its connection."""

    @property
    def client_id(self) -> str: ...

    @property
    def client_address(self) -> str: ...


class Client(NamedTuple):
    """What is remembered of one. `client_address` as Kafka shows it: `/127.0.0.1`."""

    client_id: str
    client_address: str


def client_of(caller: Caller) -> Client:
    """A request is not kept, and with it its connection: only what it says."""
    return Client(caller.client_id, caller.client_address)
