"""The exit monitor: a process that reads from a pipe until the broker's process has ended. It then
ends the lease of the broker's registration. By then the broker has died, or has stopped and could
not end the lease.

`process.py` starts it as `python -m oncelog_server.exit_monitor.child`. Only the broker can write
to the pipe. The system closes the broker's end of the pipe when the last thread of the broker's
process has ended. So when the monitor has read everything, no code of the broker runs any more. A
paused broker keeps its end open.

This process imports little, to save memory.
"""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress

from oncelog_server.exit_monitor.pipe import NO_LEASE, Received
from oncelog_server.exit_monitor.revocation import Revocation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from oncelog_server.exit_monitor.pipe import Monitored
    from oncelog_server.exit_monitor.revocation import Outcome

_READ = 65_536
_STDERR = 2
_OPEN_DESCRIPTORS = "/dev/fd"
# Pause after all members have failed.
RETRY_S = 0.2
# If etcd is unavailable for this long, it is rarely available again before the session ends.
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
        _end(revocation, received, received.monitored)


def _end(revocation: Revocation, received: Received, monitored: Monitored) -> None:
    """End the lease, and print the outcome of the first attempt. Make no attempt after PATIENCE_S,
    or when the lease has ended by itself.

    The lease is that of this broker's own registration: another process with the same broker id has
    another lease, which this monitor never gets.
    """
    ends_s = time.monotonic() + min(monitored.session_s, PATIENCE_S)
    outcome = revocation.try_once(received.lease_id)
    if received.is_registered:
        _say(monitored, outcome)
    # A supervisor may read standard error to its end before it starts the broker again.
    os.dup2(sys.stdout.fileno(), sys.stderr.fileno())
    while outcome.failure and time.monotonic() + RETRY_S <= ends_s:
        time.sleep(RETRY_S)
        outcome = revocation.try_once(received.lease_id)


def _say(monitored: Monitored, outcome: Outcome) -> None:
    """Print the outcome to the broker's standard error, because the broker no longer can. Print
    nothing if the registration had ended before."""
    text = f"the process of broker {monitored.broker_id} has ended, and was still registered: "
    if outcome.failure:
        text += "its registration ends with its session, or as soon as etcd responds: "
        text += outcome.failure
    elif outcome.was_alive:
        text += "its registration has ended now"
    else:
        return
    with suppress(OSError):  # the reader of standard error has ended too
        sys.stderr.write(f"oncelog: {text}\n")


def _close_inherited() -> None:
    """Close all descriptors except the standard streams. uvloop has copies of the broker's standard
    streams, and this process inherits them. A copy of standard error would keep that stream open.

    The loop covers only open descriptors, because a container may allow 2**30 of them.
    """
    for descriptor in map(int, os.listdir(_OPEN_DESCRIPTORS)):
        if descriptor > _STDERR:
            with suppress(OSError):  # listdir has closed its own descriptor already
                os.close(descriptor)


if __name__ == "__main__":
    # A signal to all processes of a service is meant for the broker alone.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    _close_inherited()
    run(sys.stdin.fileno())
