"""The settings of a group shard are those of its broker."""

from __future__ import annotations

from typing import Any

from oncelog_server.group.config import GroupConfig
from oncelog_server.settings.model import Settings


def test_a_shard_has_the_defaults_of_the_broker() -> None:
    assert GroupConfig.of(Settings()) == GroupConfig()


def test_each_setting_of_the_broker_reaches_the_shard() -> None:
    names = [
        "group_min_session_timeout_ms",
        "group_max_session_timeout_ms",
        "group_initial_rebalance_delay_ms",
        "group_max_size",
        "offset_metadata_max_bytes",
        "offsets_retention_check_interval_ms",
    ]
    values: dict[str, Any] = {name: number for number, name in enumerate(names, 11)}
    config = GroupConfig.of(Settings(**values, offsets_retention_minutes=3))
    assert {name: getattr(config, name) for name in names} == values
    assert config.offsets_retention_ms == 180_000
