"""Work of the cleaner on the event loop, one step in each turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from oncelog_server.log.errors import CorruptLog
from oncelog_server.storage.files import StorageError
from oncelog_server.timers import Timers

T = TypeVar("T")


def run_in_turns(
    timers: Timers,
    steps: Generator[None, None, T],
    done: Callable[[T], None],
    failed: Callable[[StorageError | CorruptLog], None] | None = None,
) -> None:
    """Run one step in each turn of the event loop, then call `done` with the result.

    `failed` gets a StorageError or CorruptLog. Without `failed`, the error is raised.
    """

    def step() -> None:
        try:
            next(steps)
        except StopIteration as ended:
            done(ended.value)
        except (StorageError, CorruptLog) as error:
            if failed is None:
                raise
            failed(error)
        else:
            timers.call_soon(step)

    step()
