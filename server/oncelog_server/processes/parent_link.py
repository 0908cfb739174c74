"""The link of a broker to the process that started it, for several brokers on one machine."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable

from oncelog_server.processes.broker_processes import SERVES


class ParentLink:
    """`descriptor` is this end of the link. `stop` is called when the other process has ended."""

    def __init__(self, descriptor: int, stop: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._stop = stop
        os.set_blocking(descriptor, False)
        os.set_inheritable(descriptor, False)
        asyncio.get_running_loop().add_reader(descriptor, self._ended)

    def _ended(self) -> None:
        # The other process sends nothing, so that only its end makes the descriptor readable.
        asyncio.get_running_loop().remove_reader(self._descriptor)
        self._stop()

    def serves(self) -> None:
        """Say that this broker serves. Raises OSError."""
        os.write(self._descriptor, SERVES)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
