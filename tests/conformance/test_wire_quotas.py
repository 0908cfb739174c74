"""The APIs of quotas get the same responses from oncelog and from Apache Kafka, and a quota holds
for the next request."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from oncelog.testing.wire import Wire
from oncelog_protocol.errors import ErrorCode
from oncelog_protocol.messages.alter_client_quotas import (
    AlterClientQuotasRequest,
    EntityData,
    EntryData,
    OpData,
)
from oncelog_protocol.messages.describe_client_quotas import (
    ComponentData,
    DescribeClientQuotasRequest,
)
from tests.harness.broker import Oncelog
from tests.harness.driving import QUICK
from tests.harness.kafka.kafka import Kafka
from tests.harness.waiting import wait_until

RATE, FETCH = "producer_byte_rate", "consumer_byte_rate"
PERCENT, CONNECTIONS = "request_percentage", "connection_creation_rate"
INVALID = ErrorCode.INVALID_REQUEST
EXACT, DEFAULT, ANY = 0, 1, 2
Entity = tuple[tuple[str, str | None], ...]
ALICE: Entity = (("user", "alice"),)
PAIR: Entity = (("client-id", None), ("user", "alice"))
ALL_USERS: Entity = (("user", None),)
APP: Entity = (("client-id", "app"),)
ADDRESS: Entity = (("ip", "10.0.0.1"),)


@pytest.fixture(scope="module", params=["oncelog", "kafka"])
def wire(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Wire]:
    folder: Path = tmp_path_factory.mktemp(request.param)
    if request.param == "kafka":
        request.getfixturevalue("kafka_jars")
    kind = Kafka if request.param == "kafka" else Oncelog
    with kind(folder, QUICK) as broker, Wire(broker.address) as wire:
        yield wire


def entry(entity: Entity, *ops: tuple[str, float | None]) -> EntryData:
    return EntryData(
        [EntityData(*part) for part in entity],
        [OpData(key, value or 0.0, value is None) for key, value in ops],
    )


def entity_of(row: Any) -> Entity:
    """Return the entity of a response, in which Kafka's order of the parts is that of a HashMap."""
    parts = [(part.entity_type, part.entity_name) for part in row.entity]
    return tuple(sorted(parts, key=lambda part: part[0]))


def altered(
    wire: Wire, *entries: EntryData, version: int = 1, validate_only: bool = False
) -> dict[Entity, tuple[int, str | None]]:
    response = wire.call(AlterClientQuotasRequest(list(entries), validate_only), version)
    return {entity_of(row): (row.error_code, row.error_message) for row in response.entries}


def described(
    wire: Wire, *components: ComponentData, is_strict: bool = False, version: int = 1
) -> dict[Entity, dict[str, float]]:
    response = wire.call(DescribeClientQuotasRequest(list(components), is_strict), version)
    assert (response.error_code, response.error_message) == (ErrorCode.NONE, "")
    return {
        entity_of(found): {row.key: row.value for row in found.values} for found in response.entries
    }


@pytest.fixture
def quotas(wire: Wire) -> Iterator[dict[Entity, dict[str, float]]]:
    """Quotas of five entities, which are removed at the end of the test."""
    defined: dict[Entity, dict[str, float]] = {
        ALICE: {RATE: 1e9, PERCENT: 12.5},
        PAIR: {FETCH: 1e9},
        ALL_USERS: {RATE: 2e9},
        APP: {RATE: 3e9},
        ADDRESS: {CONNECTIONS: 1000.0},
    }
    outcomes = altered(wire, *(entry(entity, *own.items()) for entity, own in defined.items()))
    assert outcomes == dict.fromkeys(defined, (ErrorCode.NONE, None))
    wait_until(lambda: described(wire) == defined, "all quotas")
    yield defined
    altered(wire, *(entry(entity, *dict.fromkeys(own).items()) for entity, own in defined.items()))
    wait_until(lambda: described(wire) == {}, "no quotas")


@pytest.mark.parametrize("version", [0, 1])
@pytest.mark.parametrize("is_strict", [False, True])
@pytest.mark.parametrize(
    ("components", "loosely", "strictly"),
    [
        ([], {ALICE, PAIR, ALL_USERS, APP, ADDRESS}, set()),
        ([("user", EXACT, "alice")], {ALICE, PAIR}, {ALICE}),
        ([("user", DEFAULT, None)], {ALL_USERS}, {ALL_USERS}),
        ([("user", ANY, None)], {ALICE, PAIR, ALL_USERS}, {ALICE, ALL_USERS}),
        ([("client-id", ANY, None)], {PAIR, APP}, {APP}),
        ([("user", ANY, None), ("client-id", DEFAULT, None)], {PAIR}, {PAIR}),
        ([("client-id", EXACT, "nosuch")], set(), set()),
        ([("ip", ANY, None)], {ADDRESS}, {ADDRESS}),
    ],
)
def test_a_filter_chooses_entities(
    wire: Wire,
    quotas: dict[Entity, dict[str, float]],
    components: list[tuple[str, int, str | None]],
    loosely: set[Entity],
    strictly: set[Entity],
    is_strict: bool,
    version: int,
) -> None:
    rows = [ComponentData(*component) for component in components]
    found = described(wire, *rows, is_strict=is_strict, version=version)
    chosen = strictly if is_strict else loosely
    assert found == {entity: quotas[entity] for entity in chosen}


def test_a_change_that_is_only_checked_changes_nothing(
    wire: Wire, quotas: dict[Entity, dict[str, float]]
) -> None:
    ok = (ErrorCode.NONE, None)
    assert altered(wire, entry(ALICE, (RATE, 5.0)), validate_only=True) == {ALICE: ok}
    assert described(wire) == quotas


@pytest.mark.parametrize(
    ("entity", "op", "message"),
    [
        ((), (RATE, 1.0), "Invalid empty client quota entity"),
        ((("group", "g"),), (RATE, 1.0), "Unhandled client quota entity type: group"),
        ((("user", ""),), (RATE, 1.0), "Empty user not supported"),
        (
            (("ip", "10.0.0.1"), ("user", "a")),
            (CONNECTIONS, 1.0),
            "Invalid quota entity combination, IP entity shouldnot be combined with User or "
            "ClientId",
        ),
        ((("ip", "a b"),), (CONNECTIONS, 1.0), "a b is not a valid IP or resolvable host."),
        (ADDRESS, (RATE, 1.0), f"Invalid configuration key {RATE}"),
        (ALICE, (CONNECTIONS, 1.0), f"Invalid configuration key {CONNECTIONS}"),
        (ALICE, (RATE, 0.0), f"Quota {RATE} must be greater than 0"),
        (ALICE, (RATE, 0.5), f"{RATE} cannot be a fractional value."),
        (ALICE, (RATE, 1e19), f"Proposed value for {RATE} is too large for a LONG."),
        (
            ADDRESS,
            (CONNECTIONS, 1e10),
            f"Proposed value for {CONNECTIONS} is too large for an INT.",
        ),
        (ADDRESS, (CONNECTIONS, 0.5), f"{CONNECTIONS} cannot be a fractional value."),
        (ALICE, ("nosuch", None), None),
        (ALICE, (PERCENT, None), None),
        (ALICE, (RATE, 1.0000001), None),
    ],
)
def test_the_checks_of_a_change(
    wire: Wire, entity: Entity, op: tuple[str, float | None], message: str | None
) -> None:
    """The other entity of the request gets its own outcome."""
    other: Entity = (("user", "other"),)
    outcomes = altered(wire, entry(other, (RATE, 7.0)), entry(entity, op), validate_only=True)
    code = ErrorCode.NONE if message is None else INVALID
    assert outcomes == {other: (ErrorCode.NONE, None), entity: (code, message)}


def test_an_entity_or_a_quota_that_is_named_twice(wire: Wire) -> None:
    twice = [entry(PAIR, (RATE, 5.0)), entry(PAIR, (FETCH, 5.0))]
    repeated = entry(ALICE, (RATE, 1.0), (RATE, 2.0))
    shown = "ClientQuotaEntity(entries={client-id=null, user=alice})"
    outcomes: dict[Any, Any] = altered(wire, *twice, repeated, validate_only=True)
    assert outcomes == {
        PAIR: (INVALID, f"Ignoring duplicate entity {shown}"),
        ALICE: (INVALID, "Ignoring duplicate entity ClientQuotaEntity(entries={user=alice})"),
    }
