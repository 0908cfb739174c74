"""The processor time of one Produce request within the broker, without sockets.

    python -m benchmarks.in_process
    python3.13 -m benchmarks.in_process
    PYTHONPATH=../before/server:../before/protocol python -m benchmarks.in_process

A broker runs in this process, and the requests go to its dispatch. The broker writes offsets into
the batches, so each request is restored before the next round, while no time is counted. A figure
is the least of all rounds, in microseconds of the thread's own processor time, so that other
processes of the computer hardly change it. Two interpreters, or two checkouts, can be compared in
this way in seconds.
"""

from __future__ import annotations

import argparse
import asyncio
import platform
import signal
import tempfile
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from benchmarks.requests import Entry
from benchmarks.rings import SMALL, ring
from oncelog_server.serve import run_process

if TYPE_CHECKING:
    from oncelog_server.broker import Broker

TOPIC: Final = "in-process"
PARTITIONS: Final = 8
REQUESTS: Final = 1_500
TURNS: Final = 16
LARGE_SEGMENT: Final = "log.segment.bytes=1000000000"


def loads() -> dict[int, list[Entry]]:
    """Return the requests of each load by the number of their batches."""
    return {count: ring(TOPIC, PARTITIONS, count, TURNS, SMALL) for count in (1, PARTITIONS)}


async def measure(broker: Broker, rounds: int) -> dict[int, float]:
    """Return the processor time of a request of each load, in microseconds. Raises RuntimeError if
    the broker has refused a batch."""
    from oncelog_server.cluster.topics import NewTopic
    from oncelog_server.dispatch import Dispatch
    from oncelog_server.handlers import all_handlers
    from oncelog_server.requests.session import Handshake

    serve = Dispatch(broker.services, all_handlers()).serve
    session = Handshake("PLAINTEXT").transport_open("127.0.0.1", lambda: False)
    await broker.metadata.create_topics([NewTopic(TOPIC, PARTITIONS)])
    rings = {count: [entry.request for entry in entries] for count, entries in loads().items()}
    least = dict.fromkeys(rings, float("inf"))
    sent = 0
    for _ in range(rounds):
        for batches, requests in rings.items():
            used_ns, turns = 0, REQUESTS // len(requests)
            for _ in range(turns):
                frames = [memoryview(bytearray(request)) for request in requests]
                began_ns = time.thread_time_ns()
                for frame in frames:
                    serve(frame, session)
                used_ns += time.thread_time_ns() - began_ns
            served = turns * len(requests)
            sent += served * batches
            least[batches] = min(least[batches], used_ns / served / 1000)
        await asyncio.sleep(0)
    ends = [broker.partitions.require(TOPIC, at).log_end_offset for at in range(PARTITIONS)]
    if sum(ends) != sent:
        raise RuntimeError(f"only {sum(ends)} of {sent} batches were written")
    return least


def main(arguments: Sequence[str] | None = None) -> None:
    """Print the figures of this interpreter and the imported oncelog."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.in_process")
    parser.add_argument("--rounds", type=int, default=60)
    rounds: int = parser.parse_args(arguments).rounds
    figures: dict[int, float] = {}

    async def announce(broker: Broker) -> str:
        figures.update(await measure(broker, rounds))
        signal.raise_signal(signal.SIGTERM)  # the broker stops as soon as it serves
        return ""

    with tempfile.TemporaryDirectory(prefix="oncelog-in-process-") as data:
        sources = {"assignments": (LARGE_SEGMENT,), "port": 0, "data": data}
        run_process(sources, debug=False, announce=announce)
    for count, used_us in figures.items():
        name = f"{count} partition{'s' * (count > 1)}"
        print(f"Python {platform.python_version()}, {name}: {used_us:.1f} us a request")


if __name__ == "__main__":
    main()
