"""The shop: its purchases arrive day by day, in a few seconds what took it eighteen months."""

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

# What the shop says when it has closed for good: no purchase, but a date. Without it the job would
# wait for ever for late purchases of the last 30 days.
CLOSED: Final = b'{"date":"19980901","cents":0}'


async def create_topics(servers: str) -> None:
    async with Admin(servers) as admin:
        await admin.create_topics([NewTopic(name, count, 1) for name, count in PARTITIONS.items()])


async def feed(
    servers: str, purchases: Iterable[Purchase], seconds: float, tell: Callable[[int], None]
) -> None:
    """All purchases in the order of their dates, each customer's in one partition; evenly over so
    many seconds. `tell`: how many there are, day by day."""
    in_order = sorted(purchases, key=lambda purchase: purchase.date)
    loop = asyncio.get_running_loop()
    began = loop.time()
    sent: list[asyncio.Future[RecordMetadata]] = []
    async with Producer(servers, linger_ms=20, batch_size=65_536) as producer:
        for _, day in groupby(in_order, key=lambda purchase: purchase.date):
            for one in day:
                sent.append(
                    await producer.send(PURCHASES, key=one.customer.encode(), value=one.encode())
                )
            tell(len(sent))
            due = began + seconds * len(sent) / len(in_order)
            await asyncio.sleep(max(due - loop.time(), 0))
        await asyncio.gather(*sent)
        await (await producer.send(PURCHASES, value=CLOSED))
