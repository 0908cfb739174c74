"""A program with an exit monitor. It passes the lease id of its arguments to the monitor and prints
the process id of the monitor. Then it waits for SIGKILL or SIGTERM. After SIGTERM it stops without
ending the lease, as a broker does if etcd is unavailable."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys

import uvloop

from oncelog_server.config import load_settings
from oncelog_server.exit_monitor.process import ExitMonitorProcess, monitored
from tests.harness.processes import children
from tests.server.metadata.brokers import until

# The argument for a lease that holds no registration.
UNREGISTERED = "unregistered"


async def main(lease_id: int, assignments: list[str]) -> None:
    settings = load_settings(assignments=[text for text in assignments if "=" in text]).settings
    monitor = ExitMonitorProcess(monitored(settings))
    monitor.start()
    monitor.keep(lease_id)
    if UNREGISTERED not in assignments:
        monitor.registered()
    await until(lambda: monitor._transport is not None)
    sys.stdout.write(json.dumps(children(os.getpid())) + "\n")
    sys.stdout.flush()
    stopped = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopped.set)
    await stopped.wait()


if __name__ == "__main__":
    run = {"uvloop": uvloop.run, "asyncio": asyncio.run}[sys.argv[1]]
    run(main(int(sys.argv[2]), sys.argv[3:]))
