"""The clock of a broker, which a test can advance."""

from __future__ import annotations

from typing import Final

from oncelog.testing.faults import Faults
from oncelog_client.core.arguments import number

_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1_000}


class Clock:
    """The two clocks of a broker: the clock for timestamps and the clock for timeouts.

    A restart of the broker sets them back to the time of the system.
    """

    def __init__(self, faults: Faults) -> None:
        self._faults = faults
        self.is_ahead = False

    def advance(
        self,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
        ms: float = 0,
    ) -> None:
        """Advance the clocks. Timeouts that expire by this take effect at once: those of
        transactions, members of groups, retention, producer ids and waiting requests. Raises
        FaultRefused for a negative time."""
        spans = {"days": days, "hours": hours, "minutes": minutes, "seconds": seconds}
        total_ms = number("ms", ms) + sum(
            _UNITS_MS[unit] * number(unit, span) for unit, span in spans.items()
        )
        self._faults.ask("advance", ms=round(total_ms))
        self.is_ahead = True
