"""The first attempt in the article that `tests.deep_dive` follows: an idempotent producer without
transactions. The offsets are committed after the records are sent.

    python -m tests.deep_dive.idempotent_worker BOOTSTRAP_SERVERS NUMBER
"""

from __future__ import annotations

import asyncio
import sys

from examples.purchases.billing import GROUP, INVOICES, PURCHASES, SHIPMENTS, invoice, shipment
from examples.purchases.data import Purchase
from oncelog_client import Consumer, Producer


async def work(servers: str, name: str) -> None:
    """Poll, send, wait for the broker, and commit, without end."""
    consumer = Consumer(
        servers,
        client_id=name,
        group_id=GROUP,
        auto_offset_reset="earliest",
        enable_auto_commit=False,
        session_timeout_ms=6_000,
    )
    async with Producer(servers, client_id=name) as producer, consumer:
        await consumer.subscribe([PURCHASES])
        while True:
            records = await consumer.poll(timeout_ms=200)
            if not records:
                continue
            sent = []
            for record in records:
                assert record.value is not None
                purchase = Purchase.decode(record.value)
                sent.append(await producer.send(INVOICES, key=record.key, value=invoice(purchase)))
                made = shipment(purchase)
                sent.append(await producer.send(SHIPMENTS, key=record.key, value=made))
            await asyncio.gather(*sent)
            await consumer.commit()
            sys.stdout.write(f"committed {len(records)}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(work(sys.argv[1], f"{GROUP}-{sys.argv[2]}"))
