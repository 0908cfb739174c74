"""The access of a run's clients to the broker. Without security, all clients connect alike."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Protocol

from oncelog.testing.wire import Wire


class Role(StrEnum):
    """The parts that clients have in a run."""

    FEEDER = "feeder"  # writes the input
    COPIER = "copier"  # copies the input to the output in transactions
    READER = "reader"  # reads the output
    AUDITOR = "auditor"  # creates topics, looks at offsets, and reads everything at the end


class Access(Protocol):
    """The access of all clients to one broker."""

    def settings(self, role: Role) -> dict[str, Any]:
        """Return the settings of a librdkafka client. All values are texts."""
        ...

    def connect(self) -> Wire:
        """Return a connection of the auditor. Raises OSError, and Closed if the broker ends."""
        ...

    def violations(self) -> list[str]:
        """Return a sentence for each kind of connection or request that the broker refused without
        need, since its first start."""
        ...

    def figures(self) -> list[str]:
        """Return lines for the end of a run."""
        ...


class PlainAccess:
    """The access to a listener without security."""

    def __init__(self, address: str) -> None:
        self._address = address

    def settings(self, role: Role) -> dict[str, Any]:
        return {"bootstrap.servers": self._address}

    def connect(self) -> Wire:
        return Wire(self._address)

    def violations(self) -> list[str]:
        return []

    def figures(self) -> list[str]:
        return []
