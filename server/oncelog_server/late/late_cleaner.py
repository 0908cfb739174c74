"""Load and start the log cleaner after the broker's start, because the cleaner's import is slow."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import structlog

from oncelog_server.timers import Timer, Timers

if TYPE_CHECKING:
    from oncelog_server.cleaning.cleaner import LogCleaner

log = structlog.get_logger("oncelog.broker")

# Delay of the first attempt after the start, and between two attempts.
DELAY_MS: Final = 1_000


class LateCleaner:
    """Loads the cleaner late. `make` imports the cleaner and returns it. After an OSError or
    ImportError, `make` is called again."""

    def __init__(self, timers: Timers, make: Callable[[], LogCleaner]) -> None:
        self.cleaner: LogCleaner | None = None
        self._timers = timers
        self._make = make
        self._timer: Timer | None = None
        self._failed = False

    def start(self) -> None:
        """Load the cleaner after `DELAY_MS`."""
        self._timer = self._timers.call_later(DELAY_MS, self._load)

    async def stop(self) -> None:
        """Stop the cleaner, if it was loaded. Return when it has stopped."""
        if self._timer is not None:
            self._timer.cancel()
        if self.cleaner is not None:
            self.cleaner.stop()
            await self.cleaner.stopped()

    def _load(self) -> None:
        self._timer = None
        try:
            cleaner = self._make()
        except (OSError, ImportError) as error:
            # The import fails if the process has no free descriptor, which is temporary.
            if not self._failed:
                log.warning("the log cleaner is not loaded yet", reason=str(error))
            self._failed = True
            self.start()
            return
        if self._failed:
            log.info("the log cleaner is loaded now")
        self.cleaner = cleaner
        cleaner.start()
