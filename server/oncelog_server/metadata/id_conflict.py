"""The wait of a broker for its id, while another broker is registered with it."""

from __future__ import annotations

import asyncio
from typing import Final

import structlog

from oncelog_server.cluster.image import BrokerImage
from oncelog_server.cluster.store import FinalFailure
from oncelog_server.settings.model import Settings

# Pause before the next look at a broker id that another broker has.
PAUSE_S: Final = 0.5

_log = structlog.get_logger("oncelog.cluster")


class IdInUse(FinalFailure):
    """Another broker with this broker's id is registered."""


class IdConflict:
    """The wait for the end of another broker's registration with the same id. It ends at `ends_s`
    of the loop's time, None stands for `initial.broker.registration.timeout.ms` from now."""

    def __init__(
        self,
        settings: Settings,
        directory_id: str = "",
        ends_s: float | None = None,
    ) -> None:
        timeout_s = settings.initial_broker_registration_timeout_ms / 1000
        now_s = asyncio.get_running_loop().time()
        self._ends_s = now_s + timeout_s if ends_s is None else ends_s
        self._broker_id = settings.node_id
        self._directory_id = directory_id
        self._is_logged = False

    async def wait(self, taken: BrokerImage, *, is_final: bool = False) -> None:
        """Pause before the next look. The first call logs a warning. Raises IdInUse at the end of
        the time, or at once if `is_final`."""
        left_s = self._ends_s - asyncio.get_running_loop().time()
        reason = self._refusal(taken)
        if is_final or left_s <= 0:
            raise IdInUse(reason)
        if not self._is_logged:
            self._is_logged = True
            _log.warning("the broker's id is in use", reason=reason)
        await asyncio.sleep(min(PAUSE_S, left_s))

    def _refusal(self, taken: BrokerImage) -> str:
        address = taken.endpoints[0] if taken.endpoints else None
        at = f" at {address.host}:{address.port}" if address is not None else ""
        return (
            f"a broker with id {self._broker_id} is registered already{at}, with the data "
            f"directory {taken.directory_id or 'of an unknown id'}; this broker has "
            f"{self._directory_id or 'none'} (directory.id of meta.properties). Give each broker "
            "another node.id"
        )
