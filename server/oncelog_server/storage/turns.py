"""Work on the disk that is begun piece by piece, some pieces at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from oncelog_server.storage.files import Done, StorageError

T = TypeVar("T")


def in_turns(
    pieces: Sequence[T], at_once: int, begin: Callable[[T, Done], None], done: Done
) -> None:
    """Begin the pieces in their order, at most `at_once` of them before one has ended. `done` is
    called when all that were begun have ended, with the first error, after which none is begun.
    `begin` must not call what it is given before it returns."""
    waiting = iter(pieces)
    under_way = 0
    failure: StorageError | None = None

    def begin_next() -> None:
        nonlocal under_way
        for piece in waiting:
            under_way += 1
            begin(piece, ended)
            return

    def ended(error: StorageError | None) -> None:
        nonlocal under_way, failure
        under_way -= 1
        failure = failure or error
        if failure is None:
            begin_next()
        if not under_way:
            done(failure)

    for _ in range(at_once):
        begin_next()
