"""The randomness of the client's edges: that of the operating system.

The generator of the module `random` is the application's. It may be seeded for repeatable numbers,
while the client draws from other threads (in Spark) and in forked processes.
"""

from __future__ import annotations

from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")

drawn = SystemRandom()


def fraction() -> float:
    """At least 0, less than 1: how much of a delay's jitter is taken."""
    return drawn.random()


def below(n: int) -> int:
    """A number in 0..n-1."""
    return drawn.randrange(n)


def shuffled(items: list[T]) -> list[T]:
    """The same list, in any order."""
    drawn.shuffle(items)
    return items
