"""Quotas in arguments and results of the admin client (KIP-546)."""

from __future__ import annotations

from enum import Enum
from typing import Final, NamedTuple

# The name that stands for all users, client ids or addresses without a quota of their own.
DEFAULT_NAME: Final = ""


class AnyName(Enum):
    """ANY in a filter matches each name, and the default too."""

    ANY = "any"


class ClientQuotaEntity(NamedTuple):
    """The clients that a quota applies to: those of a user, a client id, both, or an address. A
    part is None if the entity does not have it, and DEFAULT_NAME if the entity is the default."""

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


class ClientQuotaFilter(NamedTuple):
    """A filter of entities. A part of None matches every entity. A name or DEFAULT_NAME matches the
    entities with exactly this part. ANY matches the entities that have this part, with any name.
    `is_strict` leaves out entities that also have other parts."""

    user: str | AnyName | None = None
    client_id: str | AnyName | None = None
    ip: str | AnyName | None = None
    is_strict: bool = False


# The quotas of an entity, by name: producer_byte_rate, consumer_byte_rate (bytes a second),
# request_percentage, controller_mutation_rate (partitions a second), connection_creation_rate.
Quotas = dict[str, float]
