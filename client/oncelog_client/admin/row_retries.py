"""Changes of several independent rows, such as the topics of CreateTopics. Only the rows with a
retriable error are sent again. The error of a row has a note (PEP 678) with the rows that have
taken effect."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.io.cluster import Cluster

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")
E = TypeVar("E", bound=KafkaError)

_NAMES_SHOWN = 10


async def retry_rows(
    cluster: Cluster,
    rows: Iterable[tuple[K, R]],
    attempt: Callable[[Sequence[tuple[K, R]]], Awaitable[Iterable[tuple[K, KafkaError | None]]]],
    timeout_ms: float,
    *,
    validate_only: bool = False,
) -> None:
    """Send `rows` (key and content) until each row has succeeded, or is refused with an error that
    a retry would not resolve. `attempt` sends the rows that it gets, and returns the error of each
    row by its key, or None for a success. A row that has succeeded is not sent again, because the
    broker would refuse it: a topic that was created exists. After an attempt without a response,
    the same rows are sent again.

    Raises the first refusal after the end of all retries, else the last RetriableError. The other
    rows have taken effect, except those with a RetriableError, and unless the request was to
    `validate_only`. Source: KafkaAdminClient of Java,
    getCreateTopicsCall.
    """
    left = list(rows)
    done: list[K] = []
    refusal: KafkaError | None = None

    async def once() -> None:
        nonlocal left, refusal
        failures: dict[K, RetriableError] = {}
        for key, error in await attempt(left):
            if isinstance(error, RetriableError):
                failures[key] = error
            elif error is None:
                if not validate_only:
                    done.append(key)
            elif refusal is None:
                refusal = error
        left = [(key, row) for key, row in left if key in failures]
        if failures:
            raise next(iter(failures.values()))

    try:
        await cluster.retry(once, timeout_ms)
    except RetriableError as error:
        if refusal is None:
            note_done(error, done)
            raise
        raise note_done(refusal, done) from error
    if refusal is not None:
        raise note_done(refusal, done)


async def change_each(names: Sequence[str], change: Callable[[str], Awaitable[R]]) -> dict[str, R]:
    """Call `change` with each name, all at once, and return the results. Raises the first error,
    after the end of all calls."""
    outcomes = await asyncio.gather(*map(change, names), return_exceptions=True)
    done, failures = dict[str, R](), list[BaseException]()
    for name, outcome in zip(names, outcomes, strict=True):
        if isinstance(outcome, BaseException):
            failures.append(outcome)
        else:
            done[name] = outcome
    for failure in failures:
        raise note_done(failure, list(done)) if isinstance(failure, KafkaError) else failure
    return done


def note_done(error: E, done: Sequence[Hashable]) -> E:
    """Add a note with the rows that have taken effect. Rows that have only a number get none."""
    names = [str(key) for key in done if not isinstance(key, int)]
    if names:
        more = f" and {len(names) - _NAMES_SHOWN} more" if len(names) > _NAMES_SHOWN else ""
        error.add_note(f"this has taken effect: {', '.join(names[:_NAMES_SHOWN])}{more}")
    return error


def row_error(code: int, message: str | None) -> KafkaError | None:
    """Return the error of a row with this error code, or None for a success."""
    return error_for(code, message) if code else None
