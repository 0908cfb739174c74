"""The exit monitor: a process that reads from a pipe until the broker's process has ended, and then
ends the lease of the broker's registration. The broker has died, or could not end it at its stop.

`process.py` starts it as `python -m oncelog_server.exit_monitor.child`. Only the broker has the
other end of the pipe. The system closes it when the last thread of the broker's process has ended,
so at the end of the pipe no code of the broker runs any more. A paused process keeps it open.

This process imports little, for the sake of memory.
"""

from __future__ import annotations

import os
import signal
import sys
import time

from oncelog_server.exit_monitor.pipe import NO_LEASE, Received
from oncelog_server.exit_monitor.revocation import Revocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oncelog_server.exit_monitor.pipe import Monitored

_READ = 65_536
# Pause after all members have failed.
RETRY_S = 0.2
# An etcd that has been away for so long hardly comes back before the end of the session.
PATIENCE_S = 30.0


def run(source: int) -> None:
    """Wait for the end of `source`, then end the broker's lease."""
    received = Received()
    revocation: Revocation | None = None
    while data := os.read(source, _READ):
        received.feed(data)
        if revocation is None and received.monitored is not None:
            revocation = Revocation(received.monitored)
    if revocation is not None and received.monitored is not None and received.lease_id != NO_LEASE:
        failure = _end(revocation, received.lease_id, received.monitored.session_s)
        _say(received.monitored, failure)


def _end(revocation: Revocation, lease_id: int, session_s: float) -> str:
    """End the lease. Return "", or the last failure if etcd cannot be called in time."""
    ends_s = time.monotonic() + min(session_s, PATIENCE_S)
    while failure := revocation.try_once(lease_id):
        if time.monotonic() + RETRY_S > ends_s:
            return failure
        time.sleep(RETRY_S)
    return ""


def _say(monitored: Monitored, failure: str) -> None:
    """Print what has happened to the errors of the broker, which can print no more."""
    text = f"the process of broker {monitored.broker_id} has died: its registration "
    text += f"ends with its session, because etcd fails: {failure}" if failure else "has ended"
    try:
        sys.stderr.write(f"oncelog: {text}\n")
    except OSError:
        return  # the reader of the errors has died too


if __name__ == "__main__":
    # A signal for the group of the broker, or for all processes of a service, is the broker's.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    run(sys.stdin.fileno())
