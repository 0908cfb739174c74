"""Offsets, commits, expiry and listings use a group through the interface `Group`, never through
its class."""

from __future__ import annotations

from pathlib import Path

import pytest

import oncelog_server.group
from oncelog_server.group.classic.group import ClassicGroup
from oncelog_server.group.group import Group
from tests.harness.repository import imported_modules

FOLDER = Path(oncelog_server.group.__file__).parent
# Exempt: the module that creates groups, and the metric that shows a zero for each state of classic
# groups.
MAY_NAME_CLASSIC = {"shard.py", "views.py"}


def test_a_classic_group_implements_the_group_protocol() -> None:
    asked = {name for name in vars(Group) if not name.startswith("_")}
    group = ClassicGroup("g", current_state_timestamp_ms=0)
    assert asked
    assert asked | set(Group.__annotations__) <= set(dir(group))


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.name)
def test_only_the_exempt_modules_import_classic_groups(path: Path) -> None:
    classic = {name for name in imported_modules(path) if ".group.classic" in name}
    assert not classic or path.name in MAY_NAME_CLASSIC
