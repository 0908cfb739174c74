"""The sink's state machines in every order of the events of small configurations. No row is a
duplicate, no row of a done batch is invisible, and no row of an undecided batch is visible. With a
commit by group no batch is visible in part. From every state of the model the query can still
end."""

from __future__ import annotations

import pytest

from oncelog_client.spark.sink.protocol import planning
from oncelog_client.spark.sink.protocol.messages import CommitKind, Intent
from oncelog_client.spark.sink.protocol.steps import (
    Done,
    Fenced,
    FenceParent,
    Open,
    Outdated,
    Planned,
    Raised,
    Result,
    Stored,
)
from oncelog_client.values import TransactionMember
from tests.examples import COMPARES_ALL
from tests.spark.model.configurations import (
    GROUP,
    MEDIUM,
    ONE_BY_ONE,
    RECORD,
    SMALL,
    TWO_BATCHES,
    Configuration,
    search,
)
from tests.spark.model.record_sink import RecordSink
from tests.spark.model.world import Budget


@pytest.mark.parametrize("configuration", SMALL + MEDIUM * COMPARES_ALL, ids=str)
def test_no_order_of_events_breaks_an_invariant(configuration: Configuration) -> None:
    found = search(configuration)
    print(found)  # noqa: T201 - the trace, for the author of the defect
    assert found.violation is None, str(found)
    assert found.is_exhaustive


def test_without_faults_there_are_few_states() -> None:
    """Without faults there is a single order, and the query ends."""
    found = search(Configuration(GROUP, TWO_BATCHES, Budget()))
    assert found.violation is None
    assert found.states < 50


# In these cases a commit by record loses rows, and a commit by group does not. The query stops with
# DECIDED_MEMBER_LOST until an operator decides, so the search reports that the query never ends.
# The query never continues by itself with a part of a batch.


@pytest.mark.parametrize(
    ("sink", "budget"),
    [
        pytest.param(
            RecordSink(two_phase=False), Budget(timeouts=1), id="times-out-after-the-decision"
        ),
        pytest.param(RECORD, Budget(copies=1), id="late-InitProducerId-after-the-decision"),
        pytest.param(RECORD, Budget(crashes=1, rests=1), id="id-expires-between-the-end-and-DONE"),
    ],
)
def test_known_exposure_a_commit_by_record_loses_a_decided_member(
    sink: RecordSink, budget: Budget
) -> None:
    found = search(Configuration(sink, ONE_BY_ONE, budget))
    assert found.violation == "the query never ends", str(found)


@pytest.mark.parametrize(
    "budget", [Budget(timeouts=1), Budget(copies=1), Budget(crashes=1, rests=1)]
)
def test_a_commit_by_group_has_none_of_these_exposures(budget: Budget) -> None:
    found = search(Configuration(GROUP, ONE_BY_ONE, budget))
    assert found.violation is None, str(found)


def test_generations_grow_slowly_with_two_drivers_or_a_lost_state() -> None:
    """Generations have 31 bits for the sink's whole life."""
    assert _fences(refused_below=0, overtaken=planning.MOST_TAKEOVERS // 2) < 100
    assert _fences(refused_below=1 << 20, overtaken=0) < 1 << 22


def _fences(*, refused_below: int, overtaken: int) -> int:
    """Return the generation that a planning ends with. The coordinator refuses generations below
    `refused_below`; another driver takes over `overtaken` times, each time before this planning can
    open its generation."""
    nothing, parent = Stored(None), TransactionMember("S", 1, 0)
    state, command = planning.begin(Intent("S", CommitKind.GROUP), None)
    while not isinstance(command, Planned):
        answer: Result = nothing
        match command:
            case FenceParent(_, generation):
                answer = Fenced(parent) if generation >= refused_below else Outdated()
                newest = generation
            case Open():
                answer = Outdated() if overtaken else Done()
                # The other driver has fenced with the next number, but has not opened this
                # generation yet, so a read does not show it.
                refused_below = newest + 1 if overtaken else refused_below
                overtaken -= 1
        state, command = planning.step(state, answer)
        assert not isinstance(command, Raised)
    return newest
