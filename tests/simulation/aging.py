"""Transactional ids with few epochs left, so that producer ids rotate during the run (KIP-890, E2
to E7)."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from oncelog_client import Producer
from oncelog_server.broker import Broker
from oncelog_server.coordinator.shard import Decision
from oncelog_server.deferred import Deferred
from oncelog_server.transaction.metadata import LAST_PRODUCER_EPOCH, to_record

if TYPE_CHECKING:
    from tests.simulation.world import World

# A world with this seed or a higher one begins with ids near their last epoch.
AGED_FROM: Final = 1_000_000
# An id has fewer remaining epochs than this number.
LEFT: Final = 12


async def age(world: World, names: list[str]) -> None:
    """Let a client initialize each id. Then append a record of the id to the coordinator's log,
    with an epoch near the end. Call this before any fault."""
    rng = world.rng("age")
    process = world.new_process("forerunner")
    await process.run(_make(world.bootstrap, names))
    process.die()
    for name in names:
        await skip_to(world.node.broker, name, LAST_PRODUCER_EPOCH - rng.randrange(LEFT))


async def _make(bootstrap: str, names: list[str]) -> None:
    for name in names:
        producer = Producer(bootstrap, client_id="forerunner", transactional_id=name)
        await producer.start()
        await producer.init_transactions()
        await producer.close()


async def skip_to(broker: Broker, name: str, epoch: int) -> None:
    """Set the epoch of an id that this broker coordinates."""
    index, shard = broker.transactions.owner(name)
    old = replace(shard.transactions[name].metadata, producer_epoch=epoch)
    answer = broker.transactions.runtime.run(index, Decision(None, (to_record(old),)))
    if isinstance(answer, Deferred):
        committed = asyncio.Event()
        answer.on_complete(lambda _: committed.set())
        await committed.wait()
