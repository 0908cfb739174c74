"""The part of the exit monitor (`oncelog_server.exit_monitor`) that a membership needs."""

from __future__ import annotations

from typing import Final, Protocol

NO_LEASE: Final = 0


class ExitMonitor(Protocol):
    """Ends the lease of a broker's registration if the broker's process has died, or has stopped
    and could not end the lease.

    It must be certain that no code of the broker runs any more: a running broker relies on its
    lease until its authority ends.
    """

    def start(self) -> None:
        """Begin to monitor this process."""
        ...

    def keep(self, lease_id: int) -> None:
        """Note a new lease. It replaces the one before. NO_LEASE says that the lease before has
        ended."""
        ...

    def registered(self) -> None:
        """Note that the lease now holds the registration of this process."""
        ...

    async def close(self) -> None:
        """End the monitoring: the lease stays. Without this call, the lease ends after the
        process."""
        ...
