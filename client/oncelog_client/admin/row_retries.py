"""Requests with several independent rows, such as the topics of CreateTopics. Only the rows that
failed with a retriable error are sent again."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable, Sequence
from typing import TypeVar

from oncelog_client.errors import KafkaError, RetriableError, error_for
from oncelog_client.io.cluster import Cluster

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")


async def retry_rows(
    cluster: Cluster,
    rows: Iterable[tuple[K, R]],
    attempt: Callable[[Sequence[tuple[K, R]]], Awaitable[Iterable[tuple[K, KafkaError | None]]]],
    timeout_ms: float,
) -> None:
    """Send `rows` (key and content) until each row has succeeded, or is refused with an error that
    a retry would not resolve. `attempt` sends the rows that it gets, and returns the error of each
    row by its key, or None for a success. A row that has succeeded is not sent again, because the
    broker would refuse it: a topic that was created exists. After an attempt without a response,
    the same rows are sent again.

    Raises the first refusal after the end of all retries, else the last RetriableError. The other
    rows have taken effect, except those with a RetriableError. Source: KafkaAdminClient of Java,
    getCreateTopicsCall.
    """
    left = list(rows)
    refusal: KafkaError | None = None

    async def once() -> None:
        nonlocal left, refusal
        failures: dict[K, RetriableError] = {}
        for key, error in await attempt(left):
            if isinstance(error, RetriableError):
                failures[key] = error
            elif refusal is None:
                refusal = error
        left = [(key, row) for key, row in left if key in failures]
        if failures:
            raise next(iter(failures.values()))

    try:
        await cluster.retry(once, timeout_ms)
    except RetriableError as error:
        if refusal is None:
            raise
        raise refusal from error
    if refusal is not None:
        raise refusal


def row_error(code: int, message: str | None) -> KafkaError | None:
    """Return the error of a row with this error code, or None for a success."""
    return error_for(code, message) if code else None
