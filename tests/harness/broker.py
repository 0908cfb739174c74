"""The real oncelog process under test."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from oncelog.testing.broker import BrokerFailed, BrokerProcess, Process
from tests.harness.preloaded import can_be_forked, start_preloaded

__all__ = ["BrokerFailed", "Oncelog", "OncelogByAddress", "Process"]


class Oncelog(BrokerProcess):
    """A broker process of the project's tests.

    `preloaded`: if possible, fork the process from one that has imported the sources
    (`preloaded.py`).
    """

    # The default of `preloaded`. `tests/conftest.py` sets it to True, because a forked start saves
    # 0.3 s of processor time. Programs that measure a broker leave it False, so that their brokers
    # start as users start them.
    preloads: ClassVar = False

    def __init__(
        self,
        directory: Path,
        settings: Mapping[str, str] | None = None,
        environment: Mapping[str, str] | None = None,
        arguments: Sequence[str] = (),
        *,
        preloaded: bool | None = None,
    ) -> None:
        super().__init__(directory, settings, environment, arguments)
        self._preloaded = self.preloads if preloaded is None else preloaded

    def spawn(self) -> Process:
        """Start the process without waiting for it to listen."""
        command = self.command()
        if not (self._preloaded and can_be_forked(command, self._environment)):
            return super().spawn()
        self.directory.mkdir(parents=True, exist_ok=True)
        with self.output.open("wb") as output, self.log.open("ab") as log:
            self._process = start_preloaded(command, self._environment, output, log)
        return self._process


class OncelogByAddress(Oncelog):
    """A broker that advertises an IP address and not the name of the computer.

    A forked process must not resolve a name: the C library's getaddrinfo hangs in the process if
    another thread of its parent was in getaddrinfo at the time of the fork.
    """

    def _address_arguments(self) -> list[str]:
        advertised = f"advertised.listeners=PLAINTEXT://{self.address}"
        return [*super()._address_arguments(), "--set", advertised]
