"""Work of the cleaner on the event loop, one step in each turn."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TypeVar

from oncelog_server.timers import Timers

T = TypeVar("T")


def run_in_turns(
    timers: Timers,
    steps: Generator[None, None, T],
    done: Callable[[T], None],
    failed: Callable[[Exception], None],
) -> None:
    """Run one step in each turn of the event loop, then call `done` with the result.

    `failed` gets every exception of a step: otherwise nothing would call `done`, and the cleaner
    would wait for the call forever.
    """

    def step() -> None:
        try:
            next(steps)
        except StopIteration as ended:
            result = ended.value
        except Exception as error:
            failed(error)
            return
        else:
            timers.call_soon(step)
            return
        done(result)

    step()
