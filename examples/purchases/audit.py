"""Counting at the end: for every purchase one invoice and one shipment, with the right amounts."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field

from examples.purchases.billing import GROUP, INVOICES, SHIPMENTS
from examples.purchases.data import Purchase
from oncelog_client import Admin, Consumer, KafkaError, TopicPartition


@dataclass(slots=True)
class Audit:
    """`duplicates` and `losses` are what must be 0; `wrong` are results with another amount."""

    results: int = 0
    duplicates: int = 0
    losses: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not (self.duplicates or self.losses or self.wrong)

    def check(self, topic: str, amounts: dict[int, int], found: list[tuple[int, int]]) -> None:
        """`amounts` by purchase, as they should be; `found` is every (purchase, amount) in the
        topic."""
        times = Counter(purchase for purchase, _ in found)
        missing = [purchase for purchase in amounts if purchase not in times]
        doubled = [purchase for purchase, count in times.items() if count > 1]
        wrong = [purchase for purchase, amount in found if amounts.get(purchase) != amount]
        self.results += len(found)
        self.losses += len(missing)
        self.duplicates += sum(times[purchase] - 1 for purchase in doubled)
        self.wrong += len(wrong)
        for what, some in (("lost", missing), ("doubled", doubled), ("wrong", wrong)):
            self.examples += [f"{what} in {topic}: purchase {one}" for one in some[:5]]


async def billed(servers: str) -> int:
    """How many purchases the group has committed; 0 while the broker is away."""
    try:
        async with Admin(servers, request_timeout_ms=2_000) as admin:
            return sum(one.offset for one in (await admin.list_group_offsets(GROUP)).values())
    except KafkaError:
        return 0


async def read_all(servers: str, topic: str, field_name: str) -> list[tuple[int, int]]:
    """(purchase, amount) of every committed record of a topic, from its start to its end."""
    found = []
    async with Consumer(servers, isolation_level="read_committed") as consumer:
        partitions = [
            TopicPartition(topic, info.partition) for info in await consumer.partitions_for(topic)
        ]
        ends = await consumer.end_offsets(partitions)
        await consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while not all([await consumer.position(one) >= ends[one] for one in partitions]):
            for record in await consumer.poll(timeout_ms=500, max_records=10_000):
                assert record.value is not None
                value = json.loads(record.value)
                found.append((value["purchase"], value[field_name]))
    return found


async def audit(servers: str, purchases: list[Purchase]) -> Audit:
    result = Audit()
    cents = {purchase.id: purchase.cents for purchase in purchases}
    cds = {purchase.id: purchase.cds for purchase in purchases}
    result.check(INVOICES, cents, await read_all(servers, INVOICES, "cents"))
    result.check(SHIPMENTS, cds, await read_all(servers, SHIPMENTS, "cds"))
    return result
