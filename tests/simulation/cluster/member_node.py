"""A broker of a simulated cluster."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from oncelog_server.config import Settings
from oncelog_server.etcd.opening import open_etcd
from tests.simulation.broker_node import BrokerNode
from tests.simulation.cluster.exit_monitor import SimExitMonitor
from tests.simulation.cuts import Cut
from tests.simulation.disk import Loss
from tests.simulation.loop import SimLoop
from tests.simulation.process import Process

NEVER = -1


class MemberNode(BrokerNode):
    """The broker `broker_id` on the host `broker-<id>`. Its metadata is in the simulated etcd, by
    the real client of etcd."""

    def __init__(
        self,
        broker_id: int,
        loop: SimLoop,
        rng: Random,
        settings: Settings,
        new_process: Callable[[str], Process],
        new_exit_monitor: Callable[[], SimExitMonitor],
    ) -> None:
        super().__init__(loop, rng, settings, new_process, open_etcd, host_of(broker_id))
        self.broker_id = broker_id
        self._make_exit_monitor = new_exit_monitor
        self._exit_monitor: SimExitMonitor | None = None
        self.is_restarting = False
        # The revision of the metadata at the last power loss that may have removed acknowledged
        # records.
        self.lost_at_revision = NEVER
        # The cuts of the network between a power loss and the next start.
        self.silence: list[Cut] = []

    def _new_exit_monitor(self, process: Process) -> SimExitMonitor:
        monitor = self._exit_monitor = self._make_exit_monitor()
        process.on_death.append(monitor.broker_died)
        return monitor

    def kill_computer(self) -> None:
        """Kill all processes of the computer."""
        if self._exit_monitor is not None:
            self._exit_monitor.computer_died()
        self.kill()

    def lose_power(self, loss: Loss, revision: int) -> None:
        """Lose the page cache of a dead process."""
        self.disk.lose_power(loss)
        if not self.settings.oncelog_flush_on_ack:
            self.lost_at_revision = revision


def host_of(broker_id: int) -> str:
    return f"broker-{broker_id}"
