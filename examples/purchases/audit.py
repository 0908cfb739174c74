"""The count at the end of the example. It checks that every purchase has one invoice and one
shipment, with the right amounts."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from examples.purchases.billing import GROUP, INVOICES, SHIPMENTS
from examples.purchases.data import Purchase
from oncelog_client import Admin, Consumer, KafkaError, TopicPartition

K = TypeVar("K", bound=Hashable)
A = TypeVar("A")


@dataclass(slots=True)
class Audit:
    """The counts. `duplicates`, `losses` and `wrong` must be 0. `wrong`: results with another
    amount than expected."""

    results: int = 0
    duplicates: int = 0
    losses: int = 0
    wrong: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not (self.duplicates or self.losses or self.wrong)

    def check(self, topic: str, amounts: Mapping[K, A], found: list[tuple[K, A]]) -> None:
        """Count one topic. `amounts`: the expected amount of each id. `found`: every (id, amount)
        in the topic."""
        times = Counter(what for what, _ in found)
        missing = [what for what in amounts if what not in times]
        doubled = [what for what, count in times.items() if count > 1]
        wrong = [what for what, amount in found if amounts.get(what) != amount]
        self.results += len(found)
        self.losses += len(missing)
        self.duplicates += sum(times[what] - 1 for what in doubled)
        self.wrong += len(wrong)
        for verdict, some in (("lost", missing), ("doubled", doubled), ("wrong", wrong)):
            self.examples += [f"{verdict} in {topic}: {result}" for result in some[:5]]


async def billed(servers: str) -> int:
    """Return the number of purchases that the group has committed, or 0 while the broker is
    down."""
    try:
        async with Admin(servers, request_timeout_ms=2_000) as admin:
            return sum(
                list_group_offset.offset
                for list_group_offset in (await admin.list_group_offsets(GROUP)).values()
            )
    except KafkaError:
        return 0


async def read_all(servers: str, topic: str) -> list[dict[str, Any]]:
    """Return the value of every committed record of a topic."""
    found = []
    async with Consumer(servers, isolation_level="read_committed") as consumer:
        partitions = [
            TopicPartition(topic, info.partition) for info in await consumer.partitions_for(topic)
        ]
        ends = await consumer.end_offsets(partitions)
        await consumer.assign(partitions)
        await consumer.seek_to_beginning(*partitions)
        while not all(
            [await consumer.position(partition) >= ends[partition] for partition in partitions]
        ):
            for record in await consumer.poll(timeout_ms=500, max_records=10_000):
                assert record.value is not None
                found.append(json.loads(record.value))
    return found


async def audit(servers: str, purchases: list[Purchase]) -> Audit:
    """Count the invoices and the shipments."""
    result = Audit()
    cents = {purchase.id: purchase.cents for purchase in purchases}
    cds = {purchase.id: purchase.cds for purchase in purchases}
    invoices = await read_all(servers, INVOICES)
    shipments = await read_all(servers, SHIPMENTS)
    result.check(INVOICES, cents, [(invoice["purchase"], invoice["cents"]) for invoice in invoices])
    result.check(
        SHIPMENTS, cds, [(shipment["purchase"], shipment["cds"]) for shipment in shipments]
    )
    return result
