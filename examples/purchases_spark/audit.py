"""The count at the end. It checks that every purchase has one invoice and one shipment, and every
day one revenue, all with the amounts of the data."""

from __future__ import annotations

from collections import defaultdict
from typing import NamedTuple

from examples.purchases.audit import Audit, audit, read_all
from examples.purchases.data import Purchase
from examples.purchases_spark.feed import REVENUE


class Day(NamedTuple):
    """The revenue of a day (yyyy-mm-dd), in cents, and its number of purchases."""

    day: str
    cents: int
    purchases: int


def days(purchases: list[Purchase]) -> list[Day]:
    """Return the revenue of each day in the data."""
    cents: defaultdict[str, int] = defaultdict(int)
    count: defaultdict[str, int] = defaultdict(int)
    for purchase in purchases:
        day = f"{purchase.date[:4]}-{purchase.date[4:6]}-{purchase.date[6:]}"
        cents[day] += purchase.cents
        count[day] += 1
    return [Day(day, cents[day], count[day]) for day in sorted(cents)]


async def audit_all(servers: str, purchases: list[Purchase]) -> tuple[Audit, list[Day]]:
    """Return the count of the results, and the revenue that Spark has written."""
    result = await audit(servers, purchases)
    written = [Day(**value) for value in await read_all(servers, REVENUE)]
    result.check(
        REVENUE, {day.day: day for day in days(purchases)}, [(day.day, day) for day in written]
    )
    return result, sorted(written)
