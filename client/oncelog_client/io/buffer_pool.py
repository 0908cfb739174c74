"""The memory for a producer's buffered records (`buffer_memory`), as Kafka's BufferPool."""

from __future__ import annotations

import asyncio

from oncelog_client.core.batching import Accumulator
from oncelog_client.core.producer_config import ProducerConfig
from oncelog_client.errors import BufferExhaustedError, RecordTooLargeError

from .batch_outcomes import Delivery
from .sender import Sender


class BufferPool:
    """Waits for room in the buffer memory. The accumulator counts the memory in use."""

    def __init__(self, config: ProducerConfig, accumulator: Accumulator[Delivery]) -> None:
        self._config = config
        self._accumulator = accumulator

    async def wait(self, sender: Sender, size_bytes: int) -> None:
        """Wait until there is room for a record of this size. Raises BufferExhaustedError after
        `max_block_ms`."""
        self._accumulator.flushes_in_progress += 1
        sender.wake()
        try:
            async with asyncio.timeout(self._config.max_block_ms / 1000):
                while not self._accumulator.has_room(size_bytes):
                    await sender.outcomes.progressed()
        except TimeoutError:
            raise BufferExhaustedError(
                f"buffer_memory ({self._config.buffer_memory} bytes) stayed full for max_block_ms "
                f"({self._config.max_block_ms}): the brokers are slower than the calls of send; "
                "await the futures of send, or raise buffer_memory"
            ) from None
        finally:
            self._accumulator.flushes_in_progress -= 1

    def too_large(self, what: str) -> RecordTooLargeError:
        """Return the error for records that are larger than a request or the whole memory. `what`
        has their size."""
        return RecordTooLargeError(
            f"{what}: more than max_request_size ({self._config.max_request_size}) or buffer_memory"
            f" ({self._config.buffer_memory}); raise the exceeded limit, and the topic's"
            " max.message.bytes"
        )
