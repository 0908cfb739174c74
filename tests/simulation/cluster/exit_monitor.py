"""The exit monitor of a simulated broker."""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final

from tests.simulation.etcd.failures import EtcdFailure
from tests.simulation.etcd.state import State

# The time between the death of the broker and the end of its lease.
DELAYS_US: Final = (1_000, 400_000)
NO_LEASE: Final = 0


class SimExitMonitor:
    """Ends the lease of a broker some time after the death of its process, as the real one does.

    `after` calls a function after a time. `reaches_etcd` returns False while the network to etcd is
    cut. `ended` is called when the monitor has ended a lease. The monitor dies with its computer,
    and with probability `1 - survival` together with the broker.
    """

    def __init__(
        self,
        state: State,
        rng: Random,
        survival: float,
        *,
        after: Callable[[int, Callable[[], None]], None],
        reaches_etcd: Callable[[], bool],
        ended: Callable[[], None],
    ) -> None:
        self._state = state
        self._rng = rng
        self._survival = survival
        self._after = after
        self._reaches_etcd = reaches_etcd
        self._ended = ended
        self._lease_id = NO_LEASE
        self._is_running = False

    # --- what the broker calls

    def start(self) -> None:
        self._is_running = True

    def keep(self, lease_id: int) -> None:
        self._lease_id = lease_id

    def registered(self) -> None: ...

    async def close(self) -> None:
        self.computer_died()

    # --- what happens to processes

    def computer_died(self) -> None:
        self._is_running = False

    def broker_died(self) -> None:
        """Note the death of the broker's process."""
        if self._is_running and self._rng.random() < self._survival:
            self._after(self._rng.randint(*DELAYS_US), self._end)

    def _end(self) -> None:
        if self._lease_id == NO_LEASE or not self._is_running or not self._reaches_etcd():
            return
        try:
            self._state.end_lease(self._lease_id)
        except EtcdFailure:
            return  # the lease has ended already
        self._ended()
