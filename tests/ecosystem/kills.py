"""Kills of an application and of its broker, each after progress."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.ecosystem.application import Application
from tests.harness.waiting import wait_until

# The kills of each process in a run of a row.
KILLS = 20
# After progress, a kill comes at a random moment of this time: within a transaction, at its end or
# between two transactions.
MOMENT_S = 0.3
DEADLINE_S = 180.0


class Victim(Protocol):
    """A process that starts again with the same data."""

    def kill(self) -> None: ...

    def start(self) -> None: ...


def kill_in_turn(
    victims: Sequence[Victim], progress: Callable[[], int | None], number: int = KILLS
) -> None:
    """Kill each victim `number` times. Before each kill, wait until `progress()` has grown.
    `progress()` is None while it cannot be read. An application that ends by itself because the
    broker is down is started again, as a supervisor would."""
    seen = 0

    def has_grown() -> bool:
        for victim in victims:
            if isinstance(victim, Application):
                victim.revive()
        now = progress()
        return now is not None and now > seen

    for _ in range(number):
        for victim in victims:
            wait_until(has_grown, f"progress beyond {seen}", DEADLINE_S)
            time.sleep(random.uniform(0, MOMENT_S))
            seen = progress() or seen
            victim.kill()
            victim.start()
