"""Changes of bytes. They set bits, set numbers to their limits, and change lengths. They repeat,
remove and exchange parts, or take parts from another example."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random
from typing import Final

MOST_CHANGES: Final = 6
# The longest part that a change inserts or repeats.
LONGEST_PART: Final = 64
LARGEST_INPUT: Final = 64 << 10

_EDGES: Final = (
    b"\0", b"\x7f", b"\x80", b"\xff", b"\xff\xff", b"\x7f\xff\xff\xff", b"\x80\0\0\0", b"\xff" * 4,
    b"\xff" * 8, b"\0\0\0\1", b"=", b",", b'"', b"\\", b"{", b"}", b"\r\n", b"\xc3",
    b"\xed\xa0\x80",
)  # fmt: skip


def mutated(chance: Random, examples: Sequence[bytes]) -> bytes:
    """Return one of the examples with some changes."""
    data = bytearray(chance.choice(examples))
    for _ in range(chance.randrange(1, MOST_CHANGES + 1)):
        chance.choice(_CHANGES)(chance, data, examples)
    return bytes(data[:LARGEST_INPUT])


def _place(chance: Random, data: bytearray) -> int:
    return chance.randrange(len(data) + 1)


def _part(chance: Random, data: bytes | bytearray) -> bytes:
    start = chance.randrange(len(data) + 1)
    return bytes(data[start : start + chance.randrange(1, LONGEST_PART)])


def _flip(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def _set(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    if data:
        data[chance.randrange(len(data))] = chance.randrange(256)


def _add(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    """Change a byte, which may be a length, by a little."""
    if data:
        at = chance.randrange(len(data))
        data[at] = (data[at] + chance.randrange(-4, 5)) % 256


def _edge(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at, edge = _place(chance, data), chance.choice(_EDGES)
    data[at : at + len(edge) * chance.randrange(2)] = edge


def _cut(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(chance, data)
    del data[at : at + chance.randrange(1, LONGEST_PART)]


def _end(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    del data[_place(chance, data) :]


def _repeat(chance: Random, data: bytearray, _: Sequence[bytes]) -> None:
    at = _place(chance, data)
    data[at:at] = _part(chance, data) * chance.choice((1, 1, 2, 50))


def _exchange(chance: Random, data: bytearray, examples: Sequence[bytes]) -> None:
    at, part = _place(chance, data), _part(chance, chance.choice(examples))
    data[at : at + len(part)] = part


def _join(chance: Random, data: bytearray, examples: Sequence[bytes]) -> None:
    """Replace the rest by the end of another example."""
    other = chance.choice(examples)
    data[_place(chance, data) :] = other[chance.randrange(len(other) + 1) :]


_CHANGES: Final[Sequence[Callable[[Random, bytearray, Sequence[bytes]], None]]] = (
    _flip, _flip, _set, _add, _edge, _cut, _end, _repeat, _exchange, _join,
)  # fmt: skip
