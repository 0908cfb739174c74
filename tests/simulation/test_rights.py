"""Worlds with a client with changing rights (workload W9). A denied request has no effect (I20)."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import pytest

from oncelog_server.cluster.producer_id_owners import ProducerIdOwners
from oncelog_server.handlers import offset_commit
from oncelog_server.security.resources import ANONYMOUS, Operation, Resource, ResourceType
from oncelog_server.security.standard_authorizer import StandardAuthorizer
from oncelog_server.transaction.commands import init_producer_id
from tests.simulation import denied
from tests.simulation.denied import DeniedRequests
from tests.simulation.report import failure_lines
from tests.simulation.run import options_of, run_seed
from tests.simulation.sometimes import STATES
from tests.simulation.workloads.rights import HOST, Rights

WORLDS = 12
EACH = 4
SEEDS = [seed for seed in range(100) if Rights.kind in options_of(seed).workloads][:WORLDS]
RIGHTS_STATES = [state for state in STATES if state.startswith(("right ", "request ", "denied "))]


@pytest.mark.parametrize("first", range(0, WORLDS, EACH))
def test_denied_requests_have_no_effect_and_changed_rules_hold_at_once(first: int) -> None:
    met: Counter[str] = Counter()
    for seed in SEEDS[first : first + EACH]:
        verdict = run_seed(seed)
        assert not verdict.failed, "\n".join(failure_lines(verdict))
        met += verdict.met
    assert [state for state in RIGHTS_STATES if not met[state]] == []


def test_a_rule_that_does_not_hold_for_the_next_request_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The broken authorizer keeps its decisions when the rules change."""

    def without_dropping(authorizer: Any, rules: Any) -> None:
        decisions = dict(authorizer._decisions)
        index_again(authorizer, rules)
        authorizer._decisions.update(decisions)

    index_again = StandardAuthorizer._index_again
    monkeypatch.setattr(StandardAuthorizer, "_index_again", without_dropping)
    verdict = run_seed(SEEDS[0])
    assert any("but by the rules" in violation for violation in verdict.violations)


def test_an_effect_of_a_denied_request_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken OffsetCommit writes the offsets whatever the rights are."""

    def write(services: Any, context: Any, request: Any) -> Any:
        offset_commit._commit(services, context, request, request.topics)
        return steps(services, context, request)

    steps = offset_commit._steps
    monkeypatch.setattr(offset_commit, "_steps", write)
    verdict = run_seed(SEEDS[0])
    assert any("I20: a request without READ GROUP" in found for found in verdict.violations)


def test_a_record_with_another_users_producer_id_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The broken broker lets each user use every producer id."""
    monkeypatch.setattr(ProducerIdOwners, "may_use", lambda owners, request, producer_id: True)
    found = [violation for seed in SEEDS[:3] for violation in run_seed(seed).violations]
    assert any("H49: a record with another user's producer id" in violation for violation in found)


def test_a_takeover_that_keeps_the_other_users_producer_id_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        init_producer_id,
        "needs_new_id",
        lambda shard, metadata, role, principal: metadata.is_epoch_exhausted,
    )
    found = [violation for seed in SEEDS for violation in run_seed(seed).violations]
    assert any("I21" in violation for violation in found)


def test_only_denied_requests_of_the_client_with_few_rights_are_checked(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each request of this dispatch changes the state, and denies or allows a right."""
    states = iter(range(100))
    monkeypatch.setattr(denied, "state_of", lambda broker: {"state": next(states)})
    monkeypatch.setattr(denied, "ids_of_others", lambda broker: 0)
    found: list[tuple[str, list[str]]] = []

    class Dispatch:
        def __init__(self, *, allows: bool) -> None:
            self._authorizer: Any = SimpleNamespace(authorize=lambda *question: allows)

        def serve(self, frame: memoryview, session: Any) -> None:
            topic = Resource(ResourceType.TOPIC, "a")
            self._authorizer.authorize(session, Operation.WRITE, topic)

    broker: Any = object()
    for allows in (True, False):
        requests = DeniedRequests(
            Dispatch(allows=allows), HOST, lambda: broker, lambda *what: found.append(what)
        )
        for host in ("another", HOST):
            requests.serve(memoryview(b""), SimpleNamespace(principal=ANONYMOUS, host=host))
    assert found == [("WRITE TOPIC", ["state"])]
