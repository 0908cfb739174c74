"""The reader of docker/compose.yaml. It waits until all purchases are billed and counts the
results.

    python -m examples.purchases.reader BOOTSTRAP_SERVERS

The exit code is 1 if any invoice or shipment is lost, doubled or wrong.
"""

from __future__ import annotations

import asyncio
import sys

from examples.purchases.audit import audit, billed
from examples.purchases.data import purchases


async def main(servers: str) -> int:
    """Wait, count the results, and return the exit code."""
    all_purchases = list(purchases())
    while (done := await billed(servers)) < len(all_purchases):
        print(f"billed {done} of {len(all_purchases)}", flush=True)
        await asyncio.sleep(1)
    result = await audit(servers, all_purchases)
    for example in result.examples:
        print(example)
    print(
        f"{len(all_purchases)} purchases, {result.results} invoices and shipments: "
        f"{result.duplicates} doubled, {result.losses} lost, {result.wrong} wrong"
    )
    return 0 if result.passed else 1


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])))
