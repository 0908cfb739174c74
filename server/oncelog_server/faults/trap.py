"""`ONCELOG_FAIL_AT=name[:n]`: the broker kills itself when it reaches that fail point for the n-th
time."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from difflib import get_close_matches

from oncelog_server.faults.points import FAIL_POINTS


class UnknownFailPoint(ValueError):
    """The fail point is unknown, or the count is invalid. For an unknown fail point, the message
    lists all fail points."""


def kill_self(name: str, count: int) -> None:
    """Write a line with the fail point to stderr, and die by SIGKILL, so that nothing is flushed,
    closed or sent."""
    os.write(2, b'{"event":"fail point","point":"%s","count":%d}\n' % (name.encode(), count))
    os.kill(os.getpid(), signal.SIGKILL)


class Trap:
    """Counts how often its fail point is reached, and calls `spring` at the n-th time."""

    def __init__(
        self, name: str, nth: int = 1, spring: Callable[[str, int], None] = kill_self
    ) -> None:
        self.name = name
        self.nth = nth
        self._spring = spring
        self._count = 0

    @classmethod
    def parse(
        cls,
        text: str,
        source: str = "ONCELOG_FAIL_AT=",
        spring: Callable[[str, int], None] = kill_self,
    ) -> Trap:
        """Return the trap for `name` or `name:n`. `source` is the beginning of an error message.
        Raises UnknownFailPoint if the name or the count is invalid."""
        name, colon, count = text.strip().partition(":")
        if name not in FAIL_POINTS:
            near = get_close_matches(name, FAIL_POINTS, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise UnknownFailPoint(
                f"{source}{text}: no such fail point{hint}\nThere are: {', '.join(FAIL_POINTS)}"
            )
        if colon and not (count.isdecimal() and int(count) > 0):
            raise UnknownFailPoint(f"{source}{text}: {count!r} is not a count of 1 or more")
        return cls(name, int(count) if colon else 1, spring)

    def reached(self, name: str) -> None:
        """Count the fail point, and call `spring` if this is the n-th time."""
        if name == self.name:
            self._count += 1
            if self._count == self.nth:
                self._spring(name, self._count)

    def is_due(self, name: str) -> bool:
        """Return True if the next `reached` of this name is the n-th."""
        return name == self.name and self._count + 1 == self.nth
