"""The users of a world with access rules. Each client is a user of its own, with its client id as
the name. So if a client takes a transactional id over, its user changes (H49)."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import msgspec

from oncelog_server.broker import Broker
from oncelog_server.cluster.producer_ids import BLOCK_SIZE
from oncelog_server.security.resources import Principal

if TYPE_CHECKING:
    from tests.simulation.world import World

# The length of the client id in the header of a request, and its position.
_LENGTH: Final = struct.Struct(">h")
_LENGTH_AT: Final = 8


def user_of(frame: memoryview) -> Principal:
    """Return the user of a request."""
    (length,) = _LENGTH.unpack_from(frame, _LENGTH_AT)
    first = _LENGTH_AT + _LENGTH.size
    return Principal("User", str(frame[first : first + max(length, 0)], "utf-8"))


class Users:
    """Serves requests as if their clients had authenticated."""

    def __init__(self, requests: Any) -> None:
        self._requests = requests

    def serve(self, frame: memoryview, session: Any) -> Any:
        named = msgspec.structs.replace(session, principal=user_of(frame))
        return self._requests.serve(frame, named)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._requests, name)


def ids_of_others(broker: Broker) -> int:
    """Return the number of requests that were refused because their producer id belongs to another
    user."""
    return broker.services.producer_id_owners.refused


def producers_of_others(broker: Broker, user: str) -> list[tuple[int, int]]:
    """Return the producer ids and epochs that other users have for their transactional ids."""
    owners = broker.services.producer_id_owners
    return [
        live.metadata.owner
        for _, shard in broker.transactions.runtime.shards()
        for live in shard.transactions.values()
        if owners.owner_of(live.metadata.owner[0]) not in ("", f"User:{user}")
    ]


def check_owners(world: World) -> None:
    """Check that each producer id belongs to the user of its producer, and that the image shows the
    owners in the metadata store."""
    broker = world.node.broker
    owners = broker.services.producer_id_owners
    for _, shard in broker.transactions.runtime.shards():
        for name, live in shard.transactions.items():
            metadata = live.metadata
            owner = owners.owner_of(metadata.owner[0])
            if live.client is not None and live.client.principal and owner != live.client.principal:
                world.violate(
                    f"I21: {name} has producer id {metadata.owner[0]} of {owner or 'every user'},"
                    f" and its producer is {live.client.principal}"
                )
            before = owners.owner_of(metadata.previous_producer_id)
            if before and before != owner:
                world.sometimes.met("transactional id taken over by another user")
    if any(block * BLOCK_SIZE >= broker._producer_ids.ids._end for block in owners.by_block):
        world.violate("I21: a block of producer ids has an owner before it is taken")
