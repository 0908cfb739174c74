"""In each test the broker has a defect: a restart loads only a part of the state. The inspection
after a start finds the defect earlier than the checks at the end of a world, or only the inspection
finds it."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

from oncelog_protocol.internal.transaction_log import TransactionState
from oncelog_server.coordinator.loading import replay_log
from oncelog_server.group.shard import GroupShard
from oncelog_server.log.opening import load
from oncelog_server.transaction.shard import TransactionShard
from tests.simulation import world
from tests.simulation.run import run_seed

# Seeds with crashes during open transactions. World 4 is short and shows every defect below.
SHORT = 4
SEEDS = (SHORT, *(seed for seed in range(40) if seed != SHORT))


def nothing(*_: object) -> None:
    pass


def at_rest(seed: int) -> list[str]:
    """Return the violations of a world with checks at its end only."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(world, "inspect_start", nothing)
        patch.setattr(world, "inspect_loaded", nothing)
        patch.setattr(world, "inspect_running", nothing)
        return run_seed(seed).violations


def seen(invariant: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each seed with its violations, if the first violation is one of `invariant` after a
    start."""
    for seed in SEEDS:
        found = run_seed(seed).violations
        if found and f"after a start: {invariant}" in found[0]:
            yield seed, found


def time_of(violation: str) -> float:
    return float(violation.partition(" s: ")[0])


def test_an_inspection_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """World 1 is long and meets few faults. World 7 meets many."""
    seeds = (1, 7)
    traces = [run_seed(seed).trace for seed in seeds]
    monkeypatch.setattr(world, "inspect_start", nothing)
    monkeypatch.setattr(world, "inspect_loaded", nothing)
    monkeypatch.setattr(world, "inspect_running", nothing)
    assert [run_seed(seed).trace for seed in seeds] == traces


def test_a_last_stable_offset_that_a_restart_sets_too_high_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def forgets_what_is_open(*args: Any, **kwargs: Any) -> Any:
        loaded = load(*args, **kwargs)
        loaded.producers._ongoing.clear()
        return loaded

    monkeypatch.setattr("oncelog_server.log.log.load", forgets_what_is_open)
    assert any(not at_rest(seed) for seed, _ in seen("I2"))


def test_offsets_in_a_transaction_that_a_restart_does_not_restore_are_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    replay: Callable[..., None] = GroupShard.replay

    def passes_over(shard: GroupShard, record: Any, *, offset: int, transaction: Any) -> None:
        if transaction is None or shard._is_loaded:
            replay(shard, record, offset=offset, transaction=transaction)

    monkeypatch.setattr(GroupShard, "replay", passes_over)
    assert any(
        not later or time_of(found[0]) < time_of(later[0])
        for seed, found in seen("I12 __consumer_offsets")
        for later in [at_rest(seed)]
    )


def test_an_open_transaction_that_a_restart_drops_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def drops(partition: Any, shard: Any) -> Generator[None, None, int]:
        count: int = yield from replay_log(partition, shard)
        if isinstance(shard, TransactionShard):
            for name, live in list(shard.transactions.items()):
                if live.metadata.state is TransactionState.ONGOING:
                    del shard.transactions[name]
        return count

    monkeypatch.setattr("oncelog_server.coordinator.runtime.replay_log", drops)
    seed, found = next(seen("I12"))
    later = at_rest(seed)
    assert not later or time_of(found[0]) < time_of(later[0])
