"""Import the modules that the start leaves out, soon after the broker's start.

So the first request of an API does not wait for an import, and no import fails later for lack of
free descriptors.
"""

from __future__ import annotations

from importlib import import_module
from typing import Final

import structlog

from oncelog_server.handlers import NAMES
from oncelog_server.timers import Timer, Timers

log = structlog.get_logger("oncelog")

# The modules to import. Handlers import the messages of their API.
MODULES: Final = (
    *(f"oncelog_server.handlers.{name}" for name in NAMES),
    "oncelog_protocol.codegen_decode",
    "oncelog_protocol.codegen_encode",
    "oncelog_server.cluster.security_records",
    "oncelog_server.quotas.definitions",
    "oncelog_server.transaction.grouped.coordinator",
)
# Delay after the start, and between two modules: each import blocks the loop for a few ms.
BEGIN_MS: Final = 300
PAUSE_MS: Final = 20
RETRY_MS: Final = 1_000


class LateImports:
    """Imports the modules one at a time, with pauses. A failed import is retried."""

    def __init__(self, timers: Timers) -> None:
        self._timers = timers
        self._left = list(reversed(MODULES))
        self._timer: Timer | None = None
        # True if the last import failed, which is logged once.
        self._failed = False

    def start(self) -> None:
        self._timer = self._timers.call_later(BEGIN_MS, self._next)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _next(self) -> None:
        module = self._left[-1]
        try:
            import_module(module)
        except (OSError, ImportError) as error:
            # The import fails if the process has no free descriptor, which is temporary.
            if not self._failed:
                log.warning("not imported yet", module=module, reason=str(error))
            self._failed = True
            self._timer = self._timers.call_later(RETRY_MS, self._next)
            return
        if self._failed:
            log.info("imported now", module=module)
        self._failed = False
        self._left.pop()
        if self._left:
            self._timer = self._timers.call_later(PAUSE_MS, self._next)
        else:
            self._timer = None
            log.debug("everything imported", modules=len(MODULES))
