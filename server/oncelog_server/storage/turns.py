"""Runs asynchronous work in pieces, with a limited number in flight."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from oncelog_server.storage.files import Done, StorageError

T = TypeVar("T")


def in_turns(
    pieces: Sequence[T], at_once: int, begin: Callable[[T, Done], None], done: Done
) -> None:
    """Begin the pieces in their order, with at most `at_once` in flight.

    `begin(piece, ended)` begins a piece. `ended` must be called when the piece has ended, but only
    after `begin` has returned. After the first error no further piece begins. `done` is called
    with that error, or None, when no piece is in flight any more. `pieces` must not be empty.
    """
    waiting = iter(pieces)
    in_flight = 0
    failure: StorageError | None = None

    def begin_next() -> None:
        nonlocal in_flight
        for piece in waiting:
            in_flight += 1
            begin(piece, ended)
            return

    def ended(error: StorageError | None) -> None:
        nonlocal in_flight, failure
        in_flight -= 1
        failure = failure or error
        if failure is None:
            begin_next()
        if not in_flight:
            done(failure)

    for _ in range(at_once):
        begin_next()
