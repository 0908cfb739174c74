"""The CDNOW data set: 69,659 real purchases of 23,570 customers of a CD shop, 1997-1998."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Purchase:
    """One purchase. `id`: its line in the data set. `date`: yyyymmdd. `cents`: the price paid."""

    id: int
    customer: str
    date: str
    cds: int
    cents: int

    def encode(self) -> bytes:
        return json.dumps(asdict(self), separators=(",", ":")).encode()

    @classmethod
    def decode(cls, data: bytes) -> Purchase:
        return cls(**json.loads(data))


def purchases() -> Iterator[Purchase]:
    """Yield all purchases in the order of the file. Raises FileNotFoundError if the package
    `lifetimes`, which has the file, is not installed."""
    spec = find_spec("lifetimes")
    if spec is None or not spec.submodule_search_locations:
        raise FileNotFoundError("the data set is missing: make setup")
    path = Path(spec.submodule_search_locations[0]) / "datasets" / "CDNOW_master.txt"
    with path.open(encoding="ascii") as file:
        next(file)
        for number, line in enumerate(file):
            customer, date, cds, dollars = line.split()
            yield Purchase(number, customer, date, int(cds), round(float(dollars) * 100))
