"""Rounds of JoinGroup and SyncGroup that end with an error for the application. The tests run in
simulated time."""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import Any

import pytest

from oncelog_client import AuthorizationError, Consumer
from oncelog_protocol.apis import ApiKey
from oncelog_protocol.errors import ErrorCode
from tests.client.scripted_broker import TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"
REFUSED = ErrorCode.GROUP_AUTHORIZATION_FAILED
SECONDS = 10


async def _poll_in_spite_of_errors() -> list[float]:
    """Poll for SECONDS, and poll again after each error. Return the times of the errors in s."""
    loop = asyncio.get_running_loop()
    errors_s: list[float] = []
    async with Consumer(SERVER, group_id="g") as consumer:
        await consumer.subscribe(TOPIC)
        end_s = loop.time() + SECONDS
        while loop.time() < end_s:
            try:
                await consumer.poll(1_000)
            except AuthorizationError:
                errors_s.append(loop.time())
    return errors_s


@pytest.mark.parametrize("api", [ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP])
def test_a_round_with_a_fatal_error_is_followed_by_a_growing_pause(api: ApiKey) -> None:
    """A former defect: an application that polled again sent JoinGroup a thousand times a
    second."""
    broker = ScriptedBroker()
    broker.script = broker.always(api, REFUSED)
    errors_s = simulated(broker, _poll_in_spite_of_errors)
    rounds_s = [at_s for at_s, asked, _ in broker.requests if asked is ApiKey.JOIN_GROUP]
    # retry.backoff.ms is 100, retry.backoff.max.ms is 1,000.
    assert SECONDS <= len(rounds_s) <= SECONDS + 8
    pauses_s = [later - earlier for earlier, later in pairwise(rounds_s)]
    assert 0.07 < pauses_s[0] < 0.2
    assert 0.7 < pauses_s[-1] < 1.3
    # The application gets each error at once.
    assert all(
        0 < error_s - round_s < 0.01 for error_s, round_s in zip(errors_s, rounds_s, strict=False)
    )
    assert len(rounds_s) - len(errors_s) in (0, 1)


def test_the_first_round_after_a_success_needs_no_pause() -> None:
    broker = ScriptedBroker()
    refused = broker.always(ApiKey.JOIN_GROUP, REFUSED)

    def script(api: ApiKey, request: Any) -> Any:
        return refused(api, request) if broker.counts[ApiKey.JOIN_GROUP] <= 2 else None

    broker.script = script

    async def scenario() -> None:
        async with Consumer(SERVER, group_id="g") as consumer:
            await consumer.subscribe(TOPIC)
            for _ in range(2):
                with pytest.raises(AuthorizationError):
                    await consumer.poll(1_000)
            await consumer.poll(1_000)
            assert consumer.assignment()
            await consumer.subscribe(["u"])
            before_s = asyncio.get_running_loop().time()
            await consumer.poll(1_000)
            joined_s = [at_s for at_s, api, _ in broker.requests if api is ApiKey.JOIN_GROUP]
            assert len(joined_s) == 4
            assert joined_s[-1] - before_s < 0.01

    simulated(broker, scenario)
