"""A broker that dies at a fail point, and a client that does what all clients do then: connect
again, and ask again."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from tests.harness.broker import Oncelog
from tests.harness.wire import Closed, Wire

T = TypeVar("T")


class Dying:
    """`broker` is not started yet. A context manager; `deaths` are the points it died at."""

    def __init__(self, broker: Oncelog, point: str) -> None:
        self.broker = broker
        self.deaths: list[str] = []
        self.wire: Wire
        broker.fail_at(point)

    def insist(self, ask: Callable[[Wire], T]) -> T:
        """The response, of the broker that died or of the one that came after it."""
        while True:
            try:
                return ask(self.wire)
            except (Closed, OSError):
                self.revive()

    def revive(self) -> None:
        """Start a broker that has died once more, with nothing that kills it."""
        self.wire.socket.close()
        assert self.broker.wait_for_death() == -9, self.broker.said()
        self.deaths.append(last_death(self.broker))
        self.broker.fail_at(None)
        self.broker.start()
        self.wire = Wire(self.broker.address)

    def __enter__(self) -> Dying:
        self.broker.start()
        self.wire = Wire(self.broker.address)
        return self

    def __exit__(self, *error: object) -> None:
        self.wire.socket.close()
        self.broker.kill()


def last_death(broker: Oncelog) -> str:
    """The fail point that the broker has said it came to."""
    lines = [line for line in broker.log.read_text().splitlines() if '"fail point"' in line]
    assert lines, broker.said()
    event = json.loads(lines[-1])
    return f"{event['point']}:{event['count']}"
