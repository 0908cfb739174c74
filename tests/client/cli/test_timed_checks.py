"""Checks run at the same time. A command says which of them it waits for, and ends in time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import click
import pytest

from oncelog_client.cli.timed_checks import EXTRA_S, run_checks
from oncelog_client.errors import DisconnectedError
from oncelog_client.io.clock import monotonic_ms

LIMIT_S = 0.3
SILENCE_S = 0.1


def failed(name: str, error: Exception) -> str:
    return f"{name}: {error}"


async def quick() -> AsyncIterator[str]:
    yield "a"
    yield "b"


async def hanging() -> AsyncIterator[str]:
    yield "begun"
    await asyncio.Event().wait()


async def refused() -> AsyncIterator[str]:
    yield "first"
    raise DisconnectedError("switched off")


async def test_a_check_without_a_result_is_named_and_ends_at_the_limit(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The results of the others, and its own first ones, are kept."""
    checks = {"quick": quick(), "hanging": hanging(), "refused": refused()}
    began_ms = monotonic_ms()
    async with asyncio.timeout(LIMIT_S + EXTRA_S + 5):
        found = await run_checks(checks, LIMIT_S, failed, silence_s=SILENCE_S)
    assert found == [
        *("a", "b", "begun", "hanging: no result within 0.3 s (--give-up-after)"),
        *("first", "refused: NETWORK_EXCEPTION: switched off"),
    ]
    assert monotonic_ms() - began_ms >= LIMIT_S * 1000
    assert capsys.readouterr().err == (
        "no result yet: hanging; waiting up to 0.3 s (--give-up-after)\n"
    )


async def test_an_error_of_the_command_line_ends_only_its_own_check() -> None:
    async def refused_by_the_command() -> AsyncIterator[str]:
        yield "first"
        raise click.ClickException("no coordinator responds")

    checks = {"refused": refused_by_the_command(), "quick": quick()}
    found = await run_checks(checks, 60, failed)
    assert found == ["first", "refused: no coordinator responds", "a", "b"]


async def test_the_time_of_earlier_calls_counts() -> None:
    async with asyncio.timeout(5):
        began_ms = monotonic_ms() - 60_000
        found = await run_checks({"late": hanging()}, 60, failed, began_ms=began_ms)
    assert found == ["begun", "late: no result within 60 s (--give-up-after)"]


async def test_quick_checks_leave_standard_error_empty(capsys: pytest.CaptureFixture[str]) -> None:
    assert await run_checks({"quick": quick()}, 60, failed) == ["a", "b"]
    assert capsys.readouterr().err == ""


async def test_a_defect_of_a_check_ends_all_checks() -> None:
    async def broken() -> AsyncIterator[str]:
        yield "a"
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await run_checks({"broken": broken(), "hanging": hanging()}, LIMIT_S, failed)
