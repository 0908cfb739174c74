"""The fixture of all client tests finds exceptions that asyncio alone would only log."""

from __future__ import annotations

import asyncio
import gc

from tests.client import conftest


async def test_an_exception_that_nothing_retrieves_is_seen() -> None:
    async def fail() -> None:
        raise ValueError("nothing retrieves this")

    task = asyncio.ensure_future(fail())
    await asyncio.wait({task})
    del task
    gc.collect()
    assert [str(context["exception"]) for context in conftest._UNRETRIEVED] == [
        "nothing retrieves this"
    ]
    conftest._UNRETRIEVED.clear()
