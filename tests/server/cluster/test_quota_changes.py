"""Changes of quotas: the outcomes, the writes, and the image that they lead to."""

from __future__ import annotations

from typing import Any

import pytest

from oncelog_protocol.errors import ErrorCode
from oncelog_server.cluster.quota_changes import (
    QuotaAlteration,
    QuotaFilter,
    alter_quotas,
    matching_quotas,
)
from oncelog_server.cluster.store import MAX_OPERATIONS, Delete, Written
from oncelog_server.quotas.entities import Entity, entity_of
from oncelog_server.slices import at_its_end
from tests.server.cluster.clusters import Cluster

RATE, FETCH, PERCENT = "producer_byte_rate", "consumer_byte_rate", "request_percentage"
CONNECTIONS = "connection_creation_rate"
ALICE = entity_of([("user", "alice")])
ALL_USERS = entity_of([("user", None)])
PAIR = entity_of([("user", "a,b%/="), ("client-id", None)])
ADDRESS = entity_of([("ip", "10.0.0.1")])


def altered(cluster: Cluster, entity: Entity, *changes: tuple[str, float | None]) -> str | None:
    """Make the changes. Return the message of the refusal, None for success."""
    outcomes, writes = alter_quotas(cluster.image, [QuotaAlteration(entity, changes)])
    cluster.apply(writes)
    refused = outcomes[entity]
    if refused is None:
        return None
    assert refused.code is ErrorCode.INVALID_REQUEST
    return refused.message


def test_quotas_are_in_the_image_until_the_last_of_an_entity_is_removed() -> None:
    cluster = Cluster()
    assert altered(cluster, PAIR, (RATE, 1024.0), (PERCENT, 12.5)) is None
    assert altered(cluster, ALL_USERS, (FETCH, 5.0)) is None
    assert cluster.image.quotas == {PAIR: {RATE: 1024.0, PERCENT: 12.5}, ALL_USERS: {FETCH: 5.0}}
    assert altered(cluster, PAIR, (RATE, None), (PERCENT, 13.0)) is None
    assert cluster.image.quotas[PAIR] == {PERCENT: 13.0}
    _, (write,) = alter_quotas(cluster.image, [QuotaAlteration(PAIR, [(PERCENT, None)])])
    (delete,) = write.operations
    assert isinstance(delete, Delete)
    cluster.apply([write])
    assert cluster.image.quotas == {ALL_USERS: {FETCH: 5.0}}
    assert cluster.image.quotas_revision(PAIR) == 0


@pytest.mark.parametrize(
    "entity",
    [
        [("user", "a,b=c/%2C%25"), ("client-id", "user=x,ip")],
        [("user", None), ("client-id", "=")],
        [("client-id", None)],
        [("ip", "fe80::1%eth0")],
        [("user", "ü\n")],
    ],
)
def test_a_name_may_have_any_characters(entity: list[tuple[str, str | None]]) -> None:
    cluster = Cluster()
    kept = entity_of(entity)
    name = CONNECTIONS if kept[0][0] == "ip" else RATE
    assert altered(cluster, kept, (name, 7.0)) is None
    assert cluster.image.quotas == {kept: {name: 7.0}}


@pytest.mark.parametrize(
    ("parts", "change", "message"),
    [
        ([], (RATE, 1.0), "Invalid empty client quota entity"),
        ([("group", "g")], (RATE, 1.0), "Unhandled client quota entity type: group"),
        ([("user", "")], (RATE, 1.0), "Empty user not supported"),
        (
            [("user", "a"), ("ip", "10.0.0.1")],
            (RATE, 1.0),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId",
        ),
        ([("ip", "a b")], (CONNECTIONS, 1.0), "a b is not a valid IP or resolvable host."),
        ([("ip", None)], (RATE, 1.0), f"Invalid configuration key {RATE}"),
        ([("user", "a")], (CONNECTIONS, 1.0), f"Invalid configuration key {CONNECTIONS}"),
        ([("user", "a")], (RATE, 0.0), f"Quota {RATE} must be greater than 0"),
        ([("user", "a")], (PERCENT, -0.1), f"Quota {PERCENT} must be greater than 0"),
        ([("user", "a")], (PERCENT, float("nan")), f"Quota {PERCENT} must be greater than 0"),
        ([("user", "a")], (PERCENT, float("inf")), f"Quota {PERCENT} must be finite"),
        ([("user", "a")], (RATE, 1.5), f"{RATE} cannot be a fractional value."),
        ([("user", "a")], (FETCH, 1e19), f"Proposed value for {FETCH} is too large for a LONG."),
        (
            [("ip", None)],
            (CONNECTIONS, 2.0**31),
            f"Proposed value for {CONNECTIONS} is too large for an INT.",
        ),
    ],
)
def test_a_quota_that_makes_no_sense_is_refused_with_kafkas_message(
    parts: list[tuple[str, str | None]], change: tuple[str, float], message: str
) -> None:
    cluster = Cluster()
    assert altered(cluster, entity_of(parts), change) == message
    assert cluster.image.quotas == {}


def test_a_quota_that_does_not_exist_is_removed_without_a_write() -> None:
    image = Cluster().image
    alterations = [QuotaAlteration(ALICE, [(RATE, None), ("no such quota", None)])]
    assert alter_quotas(image, alterations) == ({ALICE: None}, [])


def test_the_same_value_again_is_no_write() -> None:
    cluster = Cluster()
    altered(cluster, ALICE, (RATE, 5.0))
    assert alter_quotas(cluster.image, [QuotaAlteration(ALICE, [(RATE, 5.0)])])[1] == []


def test_an_entity_or_quota_that_is_named_twice_changes_nothing() -> None:
    cluster = Cluster()
    twice = [QuotaAlteration(ALICE, [(RATE, 5.0)]), QuotaAlteration(ALICE, [(FETCH, 5.0)])]
    repeated = QuotaAlteration(PAIR, [(RATE, 1.0), (RATE, 2.0)])
    good = QuotaAlteration(ADDRESS, [(CONNECTIONS, 3.0)])
    outcomes, writes = alter_quotas(cluster.image, [*twice, repeated, good])
    cluster.apply(writes)
    assert cluster.image.quotas == {ADDRESS: {CONNECTIONS: 3.0}}
    assert {entity: refused and refused.message for entity, refused in outcomes.items()} == {
        ALICE: "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})",
        PAIR: "Ignoring duplicate entity ClientQuotaEntity(entries={client-id=null, user=a,b%/=})",
        ADDRESS: None,
    }


def test_a_write_holds_only_for_the_quotas_that_it_was_decided_on() -> None:
    cluster = Cluster()
    _, (first,) = alter_quotas(cluster.image, [QuotaAlteration(ALICE, [(RATE, 1.0)])])
    assert first.compare == (Written("quotas/user=alice", 0),)
    cluster.apply([first])
    _, (second,) = alter_quotas(cluster.image, [QuotaAlteration(ALICE, [(RATE, 2.0)])])
    assert second.compare == (Written("quotas/user=alice", cluster.image.quotas_revision(ALICE)),)


def test_many_entities_take_several_writes() -> None:
    cluster = Cluster()
    alterations = [
        QuotaAlteration(entity_of([("client-id", str(number))]), [(RATE, 1.0)])
        for number in range(MAX_OPERATIONS + 5)
    ]
    _, writes = alter_quotas(cluster.image, alterations)
    assert [len(write.operations) for write in writes] == [MAX_OPERATIONS, 5]
    cluster.apply(writes)
    assert len(cluster.image.quotas) == MAX_OPERATIONS + 5


def test_another_change_of_the_metadata_keeps_the_mapping() -> None:
    """The gate of the quotas builds its limits again only if the mapping is another object."""
    cluster = Cluster()
    altered(cluster, ALICE, (RATE, 1.0))
    before = cluster.image.quotas
    cluster.create("topic")
    assert cluster.image.quotas is before


@pytest.mark.parametrize(
    ("exact", "any_name", "is_strict", "found"),
    [
        ({}, (), False, {ALICE, ALL_USERS, PAIR, ADDRESS}),
        ({}, (), True, set()),
        ({"user": "alice"}, (), False, {ALICE}),
        ({"user": None}, (), False, {ALL_USERS}),
        ({}, ("user",), False, {ALICE, ALL_USERS, PAIR}),
        ({}, ("user",), True, {ALICE, ALL_USERS}),
        ({"client-id": None}, ("user",), True, {PAIR}),
        ({"client-id": None}, (), True, set()),
        ({"client-id": "x"}, ("user",), False, set()),
        ({"ip": "10.0.0.1"}, (), True, {ADDRESS}),
    ],
)
def test_a_filter_matches_exact_default_and_any_names(
    exact: Any, any_name: tuple[str, ...], is_strict: bool, found: set[Entity]
) -> None:
    cluster = Cluster()
    for entity in (ALICE, ALL_USERS, PAIR):
        altered(cluster, entity, (RATE, 1.0))
    altered(cluster, ADDRESS, (CONNECTIONS, 1.0))
    chosen = QuotaFilter(exact, frozenset(any_name), is_strict)
    matching = at_its_end(matching_quotas(cluster.image, chosen))
    assert {entity for entity, _ in matching} == found
