"""The entities that have quotas, and the quotas that each may have (Kafka's ClientQuotaEntity and
QuotaConfig)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import Final

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.security.hosts import is_address
from oncelog_protocol.types import INT32_MAX, INT64_MAX
from oncelog_server.refusal import Refused

USER: Final = "user"
CLIENT_ID: Final = "client-id"
IP: Final = "ip"
ENTITY_TYPES: Final = frozenset({USER, CLIENT_ID, IP})

# The types of an entity with their names, by type. A name of None is the default of the type.
Entity = tuple[tuple[str, str | None], ...]
# The limits of an entity, by the name of the quota.
EntityLimits = Mapping[str, float]


class Quota(StrEnum):
    """A quota, by its name in requests."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    MUTATION = "controller_mutation_rate"
    CONNECTION = "connection_creation_rate"


class _Form(msgspec.Struct, frozen=True):
    """The form of a quota's value. `most` is None for a number that may have a fraction."""

    most: int | None = None
    type_name: str = ""


_LONG: Final = _Form(INT64_MAX, "a LONG")
_DOUBLE: Final = _Form()

_CLIENT_QUOTAS: Final = {
    Quota.PRODUCE: _LONG,
    Quota.FETCH: _LONG,
    Quota.REQUEST: _DOUBLE,
    Quota.MUTATION: _DOUBLE,
}
_ADDRESS_QUOTAS: Final = {Quota.CONNECTION: _Form(INT32_MAX, "an INT")}

# A value may exceed a whole number by this much (Kafka's getErrorForIntegralQuotaValue).
_FRACTION: Final = 1e-6


def entity_of(parts: Iterable[tuple[str, str | None]]) -> Entity:
    """Return the entity of these types and names. If a type is repeated, its last name counts, as
    in Kafka."""
    return tuple(sorted(dict(parts).items(), key=lambda part: part[0]))


def entity_text(entity: Entity) -> str:
    """Return the entity as Kafka's error messages show it."""
    shown = ", ".join(f"{type_}={'null' if name is None else name}" for type_, name in entity)
    return f"ClientQuotaEntity(entries={{{shown}}})"


def check_entity(entity: Entity) -> None:
    """Raise Refused with INVALID_REQUEST, and Kafka's message, for an entity that cannot have
    quotas.

    Kafka resolves host names. This broker accepts only addresses, because a name may mean another
    address tomorrow.
    """
    if not entity:
        raise Refused(ErrorCode.INVALID_REQUEST, "Invalid empty client quota entity")
    for type_, name in entity:
        if type_ not in ENTITY_TYPES:
            raise Refused(ErrorCode.INVALID_REQUEST, f"Unhandled client quota entity type: {type_}")
        if name == "":
            raise Refused(ErrorCode.INVALID_REQUEST, f"Empty {type_} not supported")
    names = dict(entity)
    if IP not in names:
        return
    if len(names) > 1:
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            # Kafka's message lacks this blank, too.
            "Invalid quota entity combination, IP entity should"
            "not be combined with User or ClientId",
        )
    address = names[IP]
    if address is not None and not is_address(address):
        raise Refused(ErrorCode.INVALID_REQUEST, f"{address} is not a valid IP or resolvable host.")


def check_limit(entity: Entity, name: str, value: float) -> None:
    """Raise Refused with INVALID_REQUEST, and Kafka's message, if the entity cannot have this
    quota, or the quota cannot have this value.

    Kafka accepts a value that is infinite or not a number. Such a quota would limit nothing.
    """
    forms = _ADDRESS_QUOTAS if entity[0][0] == IP else _CLIENT_QUOTAS
    form = forms.get(name)  # type: ignore[call-overload]  # a Quota equals its name
    if form is None:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Invalid configuration key {name}")
    if not value > 0:
        raise Refused(ErrorCode.INVALID_REQUEST, f"Quota {name} must be greater than 0")
    if form.most is None:
        if value == float("inf"):
            raise Refused(ErrorCode.INVALID_REQUEST, f"Quota {name} must be finite")
        return
    if value > float(form.most):
        raise Refused(
            ErrorCode.INVALID_REQUEST,
            f"Proposed value for {name} is too large for {form.type_name}.",
        )
    if value % 1.0 > _FRACTION:
        raise Refused(ErrorCode.INVALID_REQUEST, f"{name} cannot be a fractional value.")
