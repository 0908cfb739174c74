"""No order of steps in a small replicated cluster violates a rule of replication. Each test run
searches small clusters to the end of their budgets, `make explore WORLD=replication` large ones."""

from __future__ import annotations

import pytest

from oncelog_server.replica.state import Replicas
from tests.exploration.replication.configurations import SMALL, Configuration
from tests.exploration.replication.search import Violation


@pytest.mark.parametrize("configuration", SMALL, ids=lambda found: found.name)
def test_no_order_of_steps_violates_a_rule(configuration: Configuration) -> None:
    search = configuration.search()
    assert search.is_whole
    assert search.worlds > 1_000


def test_every_kind_of_step_is_taken() -> None:
    taken = {name for found in SMALL for name in found._replace(depth=8).search().by_step}
    assert len(taken) == 25


def test_a_violation_has_the_steps_that_lead_to_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its waits for the ISR, the leader commits a batch that a member lacks."""
    monkeypatch.setattr(Replicas, "high_watermark", lambda _self, _present, end: end)
    with pytest.raises(Violation) as found:
        SMALL[0].search()
    (first, *_), path = found.value.wrong, found.value.path
    assert first.startswith("ReplicaComplete")
    assert [str(step) for step in path] == ["append at 1"]
