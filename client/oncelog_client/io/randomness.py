"""Random numbers of the client, from the operating system.

The client does not use the generator of the module `random`, because the application may seed it.
The client also draws numbers in other threads (in Spark) and in forked processes. The operating
system's generator needs no lock, and two forks do not draw the same numbers.
"""

from __future__ import annotations

from random import SystemRandom
from typing import TypeVar

T = TypeVar("T")

drawn = SystemRandom()


def fraction() -> float:
    """Return a number from 0 to below 1, for the jitter of a delay."""
    return drawn.random()


def below(n: int) -> int:
    """Return a number in 0..n-1."""
    return drawn.randrange(n)


def token(size: int) -> bytes:
    """Return this number of random bytes, for a salt or a nonce."""
    return drawn.randbytes(size)


def shuffled(items: list[T]) -> list[T]:
    """Shuffle the list in place, and return it."""
    drawn.shuffle(items)
    return items
