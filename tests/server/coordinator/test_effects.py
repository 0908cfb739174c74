"""The effects of a coordinator's decisions are values. A table has a row for each type of effect,
and a column for each moment at which effects act: taken, failed, committed."""

from __future__ import annotations

from types import ModuleType

import msgspec
import pytest

from oncelog_server.coordinator.runtime import ShardRuntime, carry_out
from oncelog_server.coordinator.shard import COMMITTED, FAILED, TAKEN, Effect, EffectRow
from oncelog_server.group import effects as group_effects
from oncelog_server.group.classic import effects as classic_effects
from oncelog_server.transaction import effects as transaction_effects
from oncelog_server.transaction.shard import TransactionShard
from tests.server.transaction.world import World

SHARD = TransactionShard(0, max_timeout_ms=1)


class Noted(msgspec.Struct, frozen=True):
    what: str


class Unknown(msgspec.Struct, frozen=True):
    pass


def effects_in(*modules: ModuleType) -> set[type[Effect]]:
    return {
        value
        for module in modules
        for value in vars(module).values()
        if isinstance(value, type)
        and issubclass(value, msgspec.Struct)
        and value.__module__ == module.__name__
    }


def test_each_moment_has_its_column_and_effects_keep_their_order() -> None:
    noted: list[str] = []
    row: EffectRow[TransactionShard] = EffectRow(
        taken=lambda shard, effect: noted.append(f"{effect.what} taken"),
        failed=lambda shard, effect, code: noted.append(f"{effect.what} failed with {code}"),
    )
    effects = (Noted("a"), Noted("b"))
    for moment, code in ((TAKEN, ()), (FAILED, (6,)), (COMMITTED, ())):
        carry_out({Noted: row}, moment, SHARD, effects, *code)
    assert noted == ["a taken", "b taken", "a failed with 6", "b failed with 6"]


def test_an_effect_without_a_row_is_an_error() -> None:
    with pytest.raises(KeyError):
        carry_out({Noted: EffectRow()}, TAKEN, SHARD, (Unknown(),))


def test_every_effect_has_a_row_and_is_frozen() -> None:
    world = World()
    tables = (
        (world.transactions.runtime, effects_in(transaction_effects)),
        (world.groups.runtime, effects_in(group_effects, classic_effects)),
    )
    for runtime, effects in tables:
        assert isinstance(runtime, ShardRuntime)
        assert runtime._effects.keys() == effects
        assert all(effect.__struct_config__.frozen for effect in effects)
