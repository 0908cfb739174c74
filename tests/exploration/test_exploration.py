"""An exploration tries all orders of the steps of one or two producers, two partitions and one
coordinator, and checks the invariants. Each test run makes short explorations, and
`make explore` makes long ones."""

from __future__ import annotations

import pytest

from oncelog_server.log.producers import Producers
from tests.exploration.exploring import Exploration
from tests.exploration.starts import BEFORE_890, world
from tests.exploration.world_model import Budget


@pytest.mark.parametrize("start", ["fresh", "ready", "open"])
@pytest.mark.parametrize("same_id", [True, False], ids=["one-id", "two-ids"])
@pytest.mark.parametrize("version", [1, 2], ids=["V1", "V2"])
def test_no_order_of_a_few_steps_violates_an_invariant(
    version: int, same_id: bool, start: str
) -> None:
    exploration = Exploration(depth=7 if same_id else 4, most_states=100_000)
    budget = BEFORE_890 if version == 1 else Budget()
    exploration.run(world(version, same_id=same_id, start=start, budget=budget))
    assert exploration.violations == []
    assert exploration.is_complete
    assert exploration.states > 200


def test_r7v1_the_exploration_finds_the_known_exposure_of_v1_clients() -> None:
    """KAFKA-17754: before KIP-890, a delayed EndTxn ends the next transaction. The exploration
    finds this known case before KIP-890, and no such case with KIP-890 (`make explore`)."""
    exploration = Exploration(depth=12, most_states=100_000)
    exploration.run(world(1, same_id=True, start="open", budget=Budget()))
    ((wrong, path), *_) = exploration.violations
    assert wrong.startswith("I7")
    assert path[-1].name == "release"


def test_every_kind_of_step_is_taken() -> None:
    exploration = Exploration(depth=6, most_states=100_000)
    exploration.run(world(2, same_id=True, start="open"))
    assert len(exploration.by_step) == 9


def test_a_broker_that_does_not_check_sequence_numbers_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Without this check the log has a repeated batch twice (I3), and the exploration finds
    this."""
    monkeypatch.setattr(Producers, "check_data", lambda *_, **__: None)
    exploration = Exploration(depth=8, most_states=100_000)
    exploration.run(world(2, same_id=True, start="open"))
    assert exploration.violations
