"""Builds `oncelog-client`. In a clone, the package oncelog_protocol is in the folder `protocol`
beside this folder. In an sdist, it is in this folder."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

PACKAGE = "oncelog_protocol"
INSIDE = Path(__file__).parent / PACKAGE
BESIDE = Path(__file__).parents[1] / "protocol" / PACKAGE


def version() -> str:
    """Return the version of oncelog_protocol. Both distributions, oncelog and oncelog-client, have
    this version."""
    folder = INSIDE if INSIDE.is_dir() else BESIDE
    (found,) = re.findall(r'^__version__ = "(.+)"$', (folder / "__init__.py").read_text(), re.M)
    return str(found)


class ProtocolIncluded(BuildHookInterface[Any]):
    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        """Add oncelog_protocol to the files of a wheel or an sdist that is built from a clone."""
        if not INSIDE.is_dir():
            build_data["force_include"][str(BESIDE)] = PACKAGE
