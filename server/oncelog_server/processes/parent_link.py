"""The link of a broker to the process that started it: for several brokers on one machine, and for
brokers of tests. The broker stops when the other process ends, however it ends."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from contextlib import suppress
from typing import Final

# A broker that has served sends this byte through its link.
SERVES: Final = b"s"


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
        """Say that this broker serves. Raises OSError. If the other process has ended, this broker
        stops in any case."""
        with suppress(BrokenPipeError, ConnectionResetError):
            os.write(self._descriptor, SERVES)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._descriptor)
        os.close(self._descriptor)
