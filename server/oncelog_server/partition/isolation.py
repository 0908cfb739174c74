"""The isolation levels of readers."""

from __future__ import annotations

from enum import IntEnum
from typing import Final


class Isolation(IntEnum):
    """The isolation levels. The values are the codes on the wire."""

    READ_UNCOMMITTED = 0
    READ_COMMITTED = 1


# By the code on the wire. A look-up is faster than a call of the enum, and each Fetch needs one.
ISOLATIONS: Final = {int(isolation): isolation for isolation in Isolation}
