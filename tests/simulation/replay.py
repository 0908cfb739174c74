"""Frames of clients that arrive again, later and over another connection. A network may cause this
if a client closes a connection and retries on another (KAFKA-17754)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Final

from oncelog_protocol.apis import ApiKey
from tests.simulation.pipe import Pipe
from tests.simulation.transport import SimTransport

if TYPE_CHECKING:
    from tests.simulation.world import World

_HEAD: Final = struct.Struct(">ihh")

# From these versions on, a repetition must have no effect (KIP-890 part 2). In older versions, a
# late EndTxn may end the next transaction: a known exposure, and the reason for part 2.
SAFE_FROM: Final[dict[int, int]] = {
    ApiKey.PRODUCE: 3,
    ApiKey.ADD_PARTITIONS_TO_TXN: 0,
    ApiKey.TXN_OFFSET_COMMIT: 5,
    ApiKey.END_TXN: 5,
    ApiKey.FETCH: 0,
    ApiKey.METADATA: 0,
    ApiKey.FIND_COORDINATOR: 0,
}


def _is_of_part_2(frame: bytes, version: int) -> bool:
    """Return True if a Produce names its transactional id and adds its partition itself. A
    repetition of any other Produce can arrive before the previous Produce, or after a power loss
    has removed the previous batch. If the partition then has no state of the producer, it accepts
    the repeated batch as the producer's first. Kafka does this, too."""
    client_id_size = int.from_bytes(frame[12:14], "big", signed=True)
    transactional_id_at = 14 + max(client_id_size, 0) + 1
    return version >= 12 and frame[transactional_id_at] != 0


class _Deaf(asyncio.Protocol):
    """Ignores the response to a copied frame."""


class Replay:
    """Forwards every write of every client, and sends copies of some frames later."""

    def __init__(self, world: World, probability: float, after_us: tuple[int, int]) -> None:
        self._world = world
        self._rng: Random = world.rng("replay")
        self._probability = probability
        self._after_us = after_us

    def __call__(self, transport: SimTransport, data: bytes) -> None:
        transport.outgoing.send(data)
        if self._world.is_healed or self._rng.random() >= self._probability:
            return
        position = 0
        while position + _HEAD.size <= len(data):
            size, key, version = _HEAD.unpack_from(data, position)
            end = position + 4 + size
            if size < 8 or end > len(data):
                return
            if version >= SAFE_FROM.get(key, 1 << 15):
                frame = data[position:end]
                must_follow = key == ApiKey.PRODUCE and not _is_of_part_2(frame, version)
                self._send_later(transport.outgoing, frame, ApiKey(key), must_follow)
            position = end

    def _send_later(self, original: Pipe, frame: bytes, key: ApiKey, must_follow: bool) -> None:
        """Send a copy of a frame later. With `must_follow`, send it only if the original and all
        earlier frames have arrived by then, and no power loss has followed."""
        delay_us = self._rng.randint(*self._after_us)
        self._world.inflicted[f"replayed {key.name}"] += 1
        mark, disk = original.sent, self._world.node.disk
        losses = disk.power_losses

        def may_go() -> bool:
            follows = original.sent - original.size >= mark and disk.power_losses == losses
            return follows or not must_follow

        self._world.net_process.start(self._send(frame, delay_us, may_go))

    async def _send(self, frame: bytes, delay_us: int, may_go: Callable[[], bool]) -> None:
        await asyncio.sleep(delay_us / 1e6)
        if not may_go():
            return
        loop = asyncio.get_running_loop()
        try:
            transport, _ = await loop.create_connection(_Deaf, "broker", 9092)
        except OSError:
            return
        assert isinstance(transport, SimTransport)
        transport.watcher = None
        transport.write(frame)
        await asyncio.sleep(1.0)
        transport.close()
