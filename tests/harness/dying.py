"""A broker that dies at a fail point, and a client that reconnects and retries, as all clients
do."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TypeVar

from oncelog.testing.wire import Closed, Wire
from tests.harness.broker import Oncelog

T = TypeVar("T")


class Dying:
    """A context manager that starts `broker` with the fail point `point`. `deaths`: the points at
    which the broker has died."""

    def __init__(self, broker: Oncelog, point: str) -> None:
        self.broker = broker
        self.deaths: list[str] = []
        self.wire: Wire
        broker.fail_at(point)

    def insist(self, ask: Callable[[Wire], T]) -> T:
        """Return the result of `ask`. If the broker dies, start it again and call `ask` again."""
        while True:
            try:
                return ask(self.wire)
            except (Closed, OSError):
                self.revive()

    def revive(self) -> None:
        """Wait for the broker's death. Start it again, without a fail point."""
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
    """Return the fail point of the broker's last death, as `name:count`."""
    lines = [line for line in broker.log.read_text().splitlines() if '"fail point"' in line]
    assert lines, broker.said()
    event = json.loads(lines[-1])
    return f"{event['point']}:{event['count']}"
