"""Counting at the end: one invoice and one shipment for every purchase, one revenue for every day,
all with the amounts of the data."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from examples.purchases.audit import Audit, audit, read_all
from examples.purchases.data import Purchase
from examples.purchases_spark.feed import REVENUE


class Day(NamedTuple):
    """`day` is yyyy-mm-dd; `cents` is what was paid on it, in so many purchases."""

    day: str
    cents: int
    purchases: int


def days(purchases: list[Purchase]) -> list[Day]:
    """The revenue as the data has it."""
    cents: defaultdict[str, int] = defaultdict(int)
    count: defaultdict[str, int] = defaultdict(int)
    for purchase in purchases:
        day = f"{purchase.date[:4]}-{purchase.date[4:6]}-{purchase.date[6:]}"
        cents[day] += purchase.cents
        count[day] += 1
    return [Day(day, cents[day], count[day]) for day in sorted(cents)]


async def audit_all(servers: str, purchases: list[Purchase]) -> tuple[Audit, list[Day]]:
    """What is wrong, and the revenue as Spark has written it."""
    result = await audit(servers, purchases)
    written = [Day(**value) for value in await read_all(servers, REVENUE)]
    result.check(
        REVENUE, {day.day: day for day in days(purchases)}, [(one.day, one) for one in written]
    )
    return result, sorted(written)
