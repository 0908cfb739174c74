"""The shop. It writes the purchases of eighteen months, day by day, in less than a minute."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from itertools import groupby
from typing import Final

from examples.purchases.data import Purchase
from oncelog_client import Admin, NewTopic, Producer, RecordMetadata

PURCHASES: Final = "purchases"
INVOICES: Final = "invoices"
SHIPMENTS: Final = "shipments"
REVENUE: Final = "revenue"
PARTITIONS: Final = {PURCHASES: 4, INVOICES: 4, SHIPMENTS: 4, REVENUE: 1}

# The last message of the shop. Its date is more than 30 days after the last purchase. Without this
# message, the job would wait forever for late purchases of the last 30 days.
CLOSED: Final = b'{"date":"19980901","cents":0}'


async def create_topics(servers: str) -> None:
    async with Admin(servers) as admin:
        await admin.create_topics([NewTopic(name, count, 1) for name, count in PARTITIONS.items()])


async def feed(
    servers: str, purchases: Iterable[Purchase], seconds: float, report: Callable[[int], None]
) -> None:
    """Write all purchases in the order of their dates, evenly over `seconds`. The purchases of a
    customer are in one partition. After each day, `report` is called with the number of purchases
    so far."""
    in_order = sorted(purchases, key=lambda purchase: purchase.date)
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent: list[asyncio.Future[RecordMetadata]] = []
    async with Producer(servers, linger_ms=20, batch_size=65_536) as producer:
        for _, day in groupby(in_order, key=lambda purchase: purchase.date):
            for purchase in day:
                sent.append(
                    await producer.send(
                        PURCHASES, key=purchase.customer.encode(), value=purchase.encode()
                    )
                )
            report(len(sent))
            due = began + seconds * len(sent) / len(in_order)
            await asyncio.sleep(max(due - loop.time(), 0))
        await asyncio.gather(*sent)
        await (await producer.send(PURCHASES, value=CLOSED))
