"""A producer that is closed during an abort, or after an abort without an outcome. The tests run in
simulated time."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from oncelog_client import Producer, TimedOutError
from oncelog_protocol.apis import ApiKey
from tests.client.scripted_broker import DROP, TOPIC, ScriptedBroker, simulated

SERVER = "broker:9092"


class SilentCoordinator(ScriptedBroker):
    """A broker that does not respond to EndTxn while `is_silent` is True. `aborts` is the number of
    its responses to EndTxn."""

    def __init__(self, version: int) -> None:
        super().__init__(self._respond, transaction_version=version)
        self.is_silent = True
        self.aborts = 0

    def _respond(self, api: ApiKey, request: Any) -> Any:
        if api is not ApiKey.END_TXN:
            return None
        assert not request.committed
        if self.is_silent:
            return DROP
        self.aborts += 1
        return None


async def _open_transaction() -> Producer[bytes, bytes]:
    producer: Producer[bytes, bytes] = Producer(
        SERVER, transactional_id="x", max_block_ms=5_000, request_timeout_ms=2_000
    )
    await producer.start()
    await producer.init_transactions()
    await producer.begin_transaction()
    await producer.send_and_wait(TOPIC, b"v")
    return producer


@pytest.mark.parametrize("version", [0, 2])
@pytest.mark.parametrize("is_cancelled", [False, True], ids=["timed out", "cancelled"])
def test_a_close_completes_an_abort_without_an_outcome(version: int, is_cancelled: bool) -> None:
    """A former defect: the close sent no EndTxn, so the transaction stayed open until its timeout,
    and held up the readers of committed records."""
    broker = SilentCoordinator(version)

    async def scenario() -> None:
        producer = await _open_transaction()
        if is_cancelled:
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(producer.abort_transaction(), 1)
        else:
            with pytest.raises(TimedOutError):
                await producer.abort_transaction()
        broker.is_silent = False
        await producer.close()

    simulated(broker, scenario)
    # The client closes the connection when a response skips that of the cancelled request.
    assert broker.aborts == 1 + is_cancelled


def test_a_close_during_an_abort_lets_the_abort_end() -> None:
    """Both calls succeed, and EndTxn is sent once more only for the lost response."""
    broker = SilentCoordinator(2)

    async def scenario() -> None:
        producer = await _open_transaction()
        aborting = asyncio.create_task(producer.abort_transaction())
        await asyncio.sleep(1)
        broker.is_silent = False
        closing = asyncio.create_task(producer.close())
        await aborting
        await closing

    simulated(broker, scenario)
    assert broker.aborts == 1


def test_a_close_bounds_its_attempts_to_abort() -> None:
    broker = SilentCoordinator(2)

    async def scenario() -> float:
        producer = await _open_transaction()
        with pytest.raises(TimedOutError):
            await producer.abort_transaction()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        await producer.close(timeout_ms=1_000)
        return loop.time() - began_s

    assert simulated(broker, scenario) < 1.5


def test_the_end_of_a_transaction_block_repeats_an_abort_without_an_outcome() -> None:
    broker = SilentCoordinator(2)

    async def scenario() -> None:
        producer = await _open_transaction()
        broker.is_silent = False
        await producer.abort_transaction()
        broker.is_silent = True

        async def block() -> None:
            async with producer.transaction():
                await producer.send_and_wait(TOPIC, b"v")
                try:
                    await asyncio.wait_for(producer.abort_transaction(), 1)
                finally:
                    broker.is_silent = False

        with pytest.raises(TimeoutError):
            await block()
        aborts = broker.aborts
        await producer.close()
        assert 2 <= broker.aborts == aborts

    simulated(broker, scenario)
