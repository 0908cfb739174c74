"""The settings of a group shard have the same defaults as the broker's settings."""

from __future__ import annotations

from oncelog_server.group.config import GroupConfig
from oncelog_server.settings.model import Settings


def test_a_shard_has_the_defaults_of_the_broker() -> None:
    config, settings = GroupConfig(), Settings()
    shared = set(GroupConfig.__struct_fields__) & set(dir(settings))
    assert len(shared) == 6
    for name in shared:
        assert getattr(config, name) == getattr(settings, name), name
    assert config.offsets_retention_ms == settings.offsets_retention_minutes * 60_000
