"""The limit that holds for a client: the most specific one that is defined."""

from __future__ import annotations

from itertools import combinations

import pytest

from oncelog_server.quotas.entities import CLIENT_ID, IP, USER, Entity, Quota, entity_of
from oncelog_server.quotas.limits import ClientLimits, FoundLimit

# The most specific entity of the client (alice, app) comes first (Kafka's ClientQuotaManager), each
# with the part of the client's identity that shares the limit.
PRECEDENCE: list[tuple[dict[str, str | None], tuple[str, str]]] = [
    ({USER: "alice", CLIENT_ID: "app"}, ("alice", "app")),
    ({USER: "alice", CLIENT_ID: None}, ("alice", "app")),
    ({USER: "alice"}, ("alice", "")),
    ({USER: None, CLIENT_ID: "app"}, ("alice", "app")),
    ({USER: None, CLIENT_ID: None}, ("alice", "app")),
    ({USER: None}, ("alice", "")),
    ({CLIENT_ID: "app"}, ("", "app")),
    ({CLIENT_ID: None}, ("", "app")),
]
OTHERS: list[dict[str, str | None]] = [
    {USER: "bob"},
    {USER: "alice", CLIENT_ID: "b"},
    {CLIENT_ID: "b"},
    {IP: "10.0.0.1"},
]
QUOTA = Quota.PRODUCE


def quotas(*names: dict[str, str | None]) -> dict[Entity, dict[str, float]]:
    """Return definitions. The limit of each is its number."""
    return {entity_of(parts.items()): {QUOTA: float(number)} for number, parts in enumerate(names)}


def test_the_most_specific_definition_wins_in_every_set_of_definitions() -> None:
    for size in range(1, len(PRECEDENCE) + 1):
        for chosen in combinations(PRECEDENCE, size):
            # The definitions are in the wrong order, and others are among them.
            names = [parts for parts, _ in reversed(chosen)]
            found = ClientLimits(quotas(*OTHERS, *names), QUOTA).of("alice", "app")
            assert found == FoundLimit(len(OTHERS) + size - 1, *chosen[0][1])


def test_definitions_of_others_and_of_another_quota_do_not_hold() -> None:
    defined = quotas(*OTHERS)
    assert ClientLimits(defined, QUOTA).of("alice", "app") is None
    assert ClientLimits(defined, Quota.FETCH).of("bob", "app") is None
    assert not ClientLimits(defined, Quota.FETCH)
    assert not ClientLimits(quotas({IP: "10.0.0.1"}), QUOTA)


@pytest.mark.parametrize("parts", [parts for parts, _ in PRECEDENCE if CLIENT_ID in parts])
def test_no_definition_for_client_ids_holds_for_an_empty_client_id(
    parts: dict[str, str | None],
) -> None:
    assert ClientLimits(quotas(parts), QUOTA).of("alice", "") is None
    assert ClientLimits(quotas(parts, {USER: None}), QUOTA).of("alice", "") == FoundLimit(
        1.0, "alice", ""
    )


def test_a_client_with_the_name_of_kafkas_default_is_not_the_default() -> None:
    found = ClientLimits(quotas({CLIENT_ID: "<default>"}), QUOTA)
    assert found.of("alice", "app") is None
    assert found.of("alice", "<default>") is not None
