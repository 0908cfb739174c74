"""The work on a purchase: an invoice and a shipment. The work is the same for every client."""

from __future__ import annotations

import json
from typing import Final

from examples.purchases.data import Purchase

PURCHASES: Final = "purchases"
INVOICES: Final = "invoices"
SHIPMENTS: Final = "shipments"
PARTITIONS: Final = 6
GROUP: Final = "billing"
# The worker aborts every twentieth transaction on purpose, and bills its purchases again.
ABORT_EVERY: Final = 20
BATCH: Final = 500


def invoice(purchase: Purchase) -> bytes:
    return json.dumps({"purchase": purchase.id, "cents": purchase.cents}).encode()


def shipment(purchase: Purchase) -> bytes:
    return json.dumps({"purchase": purchase.id, "cds": purchase.cds}).encode()
