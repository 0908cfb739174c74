"""The isolation levels of readers."""

from __future__ import annotations

from enum import IntEnum


class Isolation(IntEnum):
    """The isolation levels. The values are the codes on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1
