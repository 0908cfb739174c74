"""Each of several brokers gets the options of the process that starts it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from oncelog_server.processes.broker_processes import command_line
from oncelog_server.serve import serve

NOTHING = {"config_file": None, "port": None, "data": None, "brokers": None, "assignments": ()}


@pytest.mark.parametrize(
    ("sources", "flags"),
    [
        ({}, {}),
        ({"port": 0, "data": "a folder", "brokers": 3}, {"debug": True}),
        ({"assignments": ("num.partitions=3", "broker.rack=a b")}, {"allow_faults": True}),
        ({"config_file": "server.properties"}, {"debug": True, "allow_faults": True}),
    ],
)
def test_the_command_line_gives_the_same_options(
    tmp_path: Path, sources: dict[str, Any], flags: dict[str, bool]
) -> None:
    if "config_file" in sources:
        sources = {"config_file": tmp_path / sources["config_file"]}
        sources["config_file"].touch()
    expected = NOTHING | sources | {"debug": False, "allow_faults": False} | flags
    given = command_line(
        NOTHING | sources, debug=expected["debug"], allow_faults=expected["allow_faults"]
    )
    found = dict(serve.make_context("serve", given).params)
    found["config_file"] = found.pop("config")
    assert found == expected | {"member": None, "parent_link": None}
