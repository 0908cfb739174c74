"""Kills of an application and of its broker, each after progress."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Sequence
from typing import Protocol

from tests.harness.application import Application
from tests.harness.kafka.java_program import JavaProgram
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
    broker is down is started again, as a supervisor would.

    Before the first kill, the classes of each Java program are archived, because its starts would
    otherwise take most of the time of the run.
    """
    seen = 0

    def has_grown() -> bool:
        for victim in victims:
            if isinstance(victim, Application):
                victim.revive()
        now = progress()
        return now is not None and now > seen

    def await_progress() -> None:
        nonlocal seen
        wait_until(has_grown, f"progress beyond {seen}", DEADLINE_S)
        seen = progress() or seen

    def work() -> None:
        # The first progress may be a transaction of the killed process.
        await_progress()
        await_progress()

    for victim in victims:
        if isinstance(victim, JavaProgram):
            await_progress()
            victim.archive_classes(work)
    for _ in range(number):
        for victim in victims:
            wait_until(has_grown, f"progress beyond {seen}", DEADLINE_S)
            time.sleep(random.uniform(0, MOMENT_S))
            seen = progress() or seen
            victim.kill()
            victim.start()
