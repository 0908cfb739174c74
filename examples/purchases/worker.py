"""A worker of the job. In one transaction, it reads purchases, and writes invoices, shipments and
offsets.

    python -m examples.purchases.worker BOOTSTRAP_SERVERS NUMBER

The worker prints a line for every transaction, `committed N` or `aborted N`. It ends on SIGTERM,
and when a newer instance with the same number has taken over.
"""

from __future__ import annotations

import asyncio
import signal
import sys

from examples.purchases.billing import (
    ABORT_EVERY,
    BATCH,
    GROUP,
    INVOICES,
    PURCHASES,
    SHIPMENTS,
    invoice,
    shipment,
)
from examples.purchases.data import Purchase
from oncelog_client import (
    Consumer,
    ConsumerRecord,
    KafkaError,
    OffsetAndMetadata,
    Producer,
    ProducerFencedError,
    TopicPartition,
)


class OnPurpose(Exception):
    """The cause of an abort on purpose."""


def next_offsets(records: list[ConsumerRecord]) -> dict[TopicPartition, OffsetAndMetadata]:
    """Return the offsets after these records."""
    return {
        TopicPartition(record.topic, record.partition): OffsetAndMetadata(record.offset + 1)
        for record in records
    }


async def bill(
    producer: Producer, consumer: Consumer, records: list[ConsumerRecord], *, spoil: bool
) -> None:
    """Bill the records in one transaction, all or none."""
    async with producer.transaction():
        for record in records:
            assert record.value is not None
            purchase = Purchase.decode(record.value)
            await producer.send(INVOICES, key=record.key, value=invoice(purchase))
            await producer.send(SHIPMENTS, key=record.key, value=shipment(purchase))
        await producer.send_offsets_to_transaction(next_offsets(records), consumer.group_metadata())
        if spoil:
            raise OnPurpose


async def work(servers: str, number: int, stopping: asyncio.Event) -> None:
    name = f"{GROUP}-{number}"
    consumer = Consumer(
        servers,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        max_poll_records=BATCH,
        session_timeout_ms=6_000,
        heartbeat_interval_ms=500,
        client_id=name,
    )
    producer = Producer(servers, transactional_id=name, client_id=name)
    done = 0
    async with producer, consumer:
        await producer.init_transactions()
        await consumer.subscribe([PURCHASES])
        while not stopping.is_set():
            records = await consumer.poll(timeout_ms=200)
            if not records:
                continue
            done += 1
            try:
                await bill(producer, consumer, records, spoil=done % ABORT_EVERY == 0)
            except OnPurpose:
                print(f"aborted {len(records)}", flush=True)
                await consumer.reset_to_last_committed()
            else:
                print(f"committed {len(records)}", flush=True)


async def main(servers: str, number: int) -> None:
    """Bill until SIGTERM. After an error, a new producer with the same id aborts the open
    transaction of its predecessor."""
    stopping = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
    while not stopping.is_set():
        try:
            await work(servers, number, stopping)
        except ProducerFencedError:
            # A newer instance of this worker does the work now.
            print("fenced", flush=True)
            return
        except KafkaError as error:
            print(f"again {type(error).__name__}: {error}", flush=True)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
