"""FastStream on librdkafka: copy each record at least once. It commits an offset after the broker
has the copy.

Arguments: the address of a broker and a folder, which it does not use.
"""

from __future__ import annotations

import asyncio
import sys

from faststream import AckPolicy, FastStream
from faststream.confluent import KafkaBroker, KafkaMessage


def main(address: str, folder: str) -> None:
    broker = KafkaBroker(
        address,
        enable_idempotence=True,
        config={"session.timeout.ms": 3000, "heartbeat.interval.ms": 500},
    )
    publisher = broker.publisher("counts")

    @broker.subscriber(
        "lines",
        group_id="faststream",
        auto_offset_reset="earliest",
        ack_policy=AckPolicy.NACK_ON_ERROR,
    )
    async def copy(message: KafkaMessage) -> None:
        await publisher.publish(message.body, key=message.raw_message.key())

    asyncio.run(FastStream(broker).run())


if __name__ == "__main__":
    main(*sys.argv[1:])
