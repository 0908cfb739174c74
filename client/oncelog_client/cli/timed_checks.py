"""Runs checks at the same time, and within the time of the command line (`--give-up-after`)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Final, TypeVar

import click

from oncelog_client.cli.failures import Failed
from oncelog_client.cli.output import note
from oncelog_client.errors import KafkaError
from oncelog_client.io.clock import monotonic_ms

R = TypeVar("R")

# After this time without a result, the command says on standard error what it waits for.
SILENCE_S: Final = 2.0
# A call of the client ends by itself at the limit, with the reason. A check of several calls is
# cancelled this much later.
EXTRA_S: Final = 0.5


async def run_checks(
    checks: Mapping[str, AsyncIterator[R]],
    limit_s: float,
    failed: Callable[[str, Exception], R],
    *,
    began_ms: float | None = None,
    silence_s: float = SILENCE_S,
) -> list[R]:
    """Return the results of the checks, in their order. For a check with an error, and for one
    without a result `limit_s` after `began_ms` (default: now), the last result is that of
    `failed`."""
    passed_s = 0.0 if began_ms is None else (monotonic_ms() - began_ms) / 1000
    rest_s = max(limit_s - passed_s, 0)
    silence_s = min(silence_s, rest_s)
    found: dict[str, list[R]] = {name: [] for name in checks}
    tasks = {
        name: asyncio.ensure_future(_collect(results, found[name]))
        for name, results in checks.items()
    }
    try:
        await asyncio.wait(tasks.values(), timeout=silence_s)
        late = [name for name, task in tasks.items() if not task.done()]
        if late and rest_s > silence_s:
            note(_waiting_text(late, limit_s))
        await asyncio.wait(tasks.values(), timeout=rest_s - silence_s + EXTRA_S)
        for name, task in tasks.items():
            try:
                if task.done():
                    await task
                else:
                    raise Failed(f"no result within {limit_s:g} s (--give-up-after)")
            except (click.ClickException, KafkaError) as error:
                found[name].append(failed(name, error))
    finally:
        for task in tasks.values():
            task.cancel()
        await asyncio.gather(*tasks.values(), return_exceptions=True)
    return [result for results in found.values() for result in results]


async def _collect(results: AsyncIterator[R], found: list[R]) -> None:
    async for result in results:
        found.append(result)


def _waiting_text(names: Iterable[str], limit_s: float) -> str:
    return f"no result yet: {', '.join(names)}; waiting up to {limit_s:g} s (--give-up-after)"
