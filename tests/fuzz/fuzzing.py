"""Runs a family on many inputs. An input is found by the seed and its number."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from random import Random
from typing import Final, NamedTuple

from tests.fuzz.mutations import mutated

# An input that takes longer blocks the event loop, or the start of a broker.
SLOWEST_S: Final = 2.0


class Family(NamedTuple):
    """A parser with good inputs. `check` parses an input and returns a word for the outcome, such
    as "refused". An exception that `check` raises is a finding."""

    examples: Sequence[bytes]
    check: Callable[[bytes], str]


class Finding(Exception):
    """An input with a wrong outcome. `data` is the input, `number` its number."""

    def __init__(self, number: int, data: bytes, what: str) -> None:
        super().__init__(f"input {number} ({len(data)} bytes): {what}")
        self.number = number
        self.data = data


def input_of(family: Family, seed: int, number: int) -> bytes:
    """Return an input. The first inputs are the examples themselves."""
    if number < len(family.examples):
        return family.examples[number]
    return mutated(Random((seed << 64) + number), family.examples)


def fuzz(family: Family, seed: int, numbers: range) -> Counter[str]:
    """Run the inputs with these numbers. Return the number of inputs with each outcome. Raises
    Finding."""
    outcomes: Counter[str] = Counter()
    for number in numbers:
        data = input_of(family, seed, number)
        outcomes[checked(family, data, number)] += 1
    return outcomes


def checked(family: Family, data: bytes, number: int = 0) -> str:
    """Return the outcome of an input. Raises Finding."""
    started = time.perf_counter()
    try:
        outcome = family.check(data)
    except Exception as error:
        raise Finding(number, data, f"{type(error).__name__}: {error}") from error
    took = time.perf_counter() - started
    if took > SLOWEST_S:
        raise Finding(number, data, f"{outcome} after {took:.1f} s")
    return outcome
