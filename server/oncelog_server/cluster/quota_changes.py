"""Changes and look-ups of the quotas of clients, decided on a metadata image. Checks, codes and
messages are those of Kafka's ClientQuotaControlManager and ClientQuotasImage (KIP-546)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster import records
from oncelog_server.cluster.image import ClusterImage
from oncelog_server.cluster.records import QuotasRecord
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Put, Write, WriteOperation, Written
from oncelog_server.quotas.entities import (
    Entity,
    EntityLimits,
    check_entity,
    check_limit,
    entity_text,
)
from oncelog_server.refusal import Refused
from oncelog_server.slices import Steps


class QuotaAlteration(msgspec.Struct, frozen=True):
    """Changes of the quotas of an entity: each name with its new limit, or None to remove it."""

    entity: Entity
    changes: Sequence[tuple[str, float | None]]


class QuotaFilter(msgspec.Struct, frozen=True):
    """A filter of entities: types with an exact name (None for the default), and types with any
    name. `is_strict` leaves out entities that have other types, too."""

    exact: Mapping[str, str | None]
    any_name: frozenset[str]
    is_strict: bool

    def matches(self, entity: Entity) -> bool:
        names = dict(entity)
        if self.is_strict and len(names) != len(self.exact) + len(self.any_name):
            return False
        return self.any_name <= names.keys() and self.exact.items() <= names.items()


def alter_quotas(
    image: ClusterImage, alterations: Sequence[QuotaAlteration]
) -> tuple[dict[Entity, Refused | None], list[Write]]:
    """Return the outcome of each entity, in the order of the request, and the writes that make the
    accepted changes.

    All changes of an entity are one record, so nearly every request is one transaction of the
    store. Changes of more than MAX_OPERATIONS entities take several transactions.
    """
    outcomes: dict[Entity, Refused | None] = {}
    after: dict[Entity, EntityLimits] = {}
    for alteration in alterations:
        entity = alteration.entity
        if entity in outcomes or _has_repeated_name(alteration):
            # Kafka carries out the first of several alterations of an entity, and responds with
            # this error.
            after.pop(entity, None)
            outcomes[entity] = Refused(
                ErrorCode.INVALID_REQUEST, f"Ignoring duplicate entity {entity_text(entity)}"
            )
            continue
        try:
            limits = _altered(image, alteration)
        except Refused as refused:
            outcomes[entity] = refused
        else:
            outcomes[entity] = None
            if limits != image.quotas.get(entity, {}):
                after[entity] = limits
    return outcomes, _writes(image, after)


def _has_repeated_name(alteration: QuotaAlteration) -> bool:
    names = [name for name, _ in alteration.changes]
    return len(set(names)) < len(names)


def _altered(image: ClusterImage, alteration: QuotaAlteration) -> EntityLimits:
    """Return the quotas of the entity after the changes. As in Kafka, a quota that does not exist
    may be removed, even if its name is unknown. Raises Refused."""
    entity = alteration.entity
    check_entity(entity)
    limits = dict(image.quotas.get(entity, {}))
    for name, limit in alteration.changes:
        if limit is None:
            limits.pop(name, None)
        else:
            check_limit(entity, name, limit)
            limits[name] = limit
    return limits


def matching_quotas(
    image: ClusterImage, chosen: QuotaFilter
) -> Steps[list[tuple[Entity, EntityLimits]]]:
    """Return the quotas of the entities that a filter matches. Each step checks one entity."""
    found = []
    for entity, limits in image.quotas.items():
        yield
        if chosen.matches(entity):
            found.append((entity, limits))
    return found


def _writes(image: ClusterImage, after: Mapping[Entity, EntityLimits]) -> list[Write]:
    entities = list(after)
    return [
        _write(image, {entity: after[entity] for entity in entities[start:][:MAX_OPERATIONS]})
        for start in range(0, len(entities), MAX_OPERATIONS)
    ]


def _write(image: ClusterImage, after: Mapping[Entity, EntityLimits]) -> Write:
    conditions: list[Written] = []
    operations: list[WriteOperation] = []
    for entity, limits in after.items():
        key = records.quotas_key(entity)
        conditions.append(Written(key, image.quotas_revision(entity)))
        operations.append(
            Put(key, records.encode(QuotasRecord(dict(limits)))) if limits else Delete(key)
        )
    return Write(tuple(conditions), tuple(operations))
